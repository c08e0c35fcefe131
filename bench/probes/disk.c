#include "harness.h"
static const struct probe list[] = {{0}};
const struct suite disk = {"disk", list, 0};
