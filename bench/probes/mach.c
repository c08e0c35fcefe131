#include "harness.h"
static const struct probe list[] = {{0}};
const struct suite mach = {"mach", list, 0};
