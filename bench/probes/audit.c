/* The cost of audit (audit(8)) for calls that no rule selects: an openat and close under each kind of rule. */
#include "harness.h"
#include <linux/audit.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#define FILE_PATH ON_DISK "/file"
#define WATCHED ON_DISK "/watched"

/* A condition of a rule: a field, its value, and its text. */
struct condition {
    unsigned field, value;
    const char *text;
};

static int control;

/* Sends a request, and reads its answers until the one that says how it ended. */
static void ask(int type, const void *body, size_t bytes)
{
    char message[4096] = {0};
    struct nlmsghdr *head = (struct nlmsghdr *)message;
    head->nlmsg_len = NLMSG_LENGTH(bytes);
    head->nlmsg_type = type;
    head->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    memcpy(NLMSG_DATA(head), body, bytes);
    need(send(control, message, NLMSG_ALIGN(head->nlmsg_len), 0) > 0, "a request to audit");
    do
        need(recv(control, message, sizeof message, 0) > 0, "an answer of audit");
    while (head->nlmsg_type != NLMSG_ERROR);
    need(*(int *)NLMSG_DATA(head) == 0, "audit refuses a request");
}

static void enable(unsigned enabled)
{
    struct audit_status status = {.mask = AUDIT_STATUS_ENABLED, .enabled = enabled};
    ask(AUDIT_SET, &status, sizeof status);
}

/* The conditions of the rule arg[0]. */
static const struct condition *conditions(void)
{
    static const struct condition rules[][3] = {
        {{0}},
        {{AUDIT_LOGINUID, 1000, ""}},
        {{AUDIT_SUCCESS, 0, ""}},
        {{AUDIT_WATCH, 0, WATCHED}, {AUDIT_PERM, AUDIT_PERM_WRITE | AUDIT_PERM_ATTR, ""}},
        {{AUDIT_WATCH, 0, WATCHED}, {AUDIT_PERM, AUDIT_PERM_READ, ""}},
        {{AUDIT_DIR, 0, WATCHED ".d"}, {AUDIT_PERM, AUDIT_PERM_READ, ""}},
    };
    return rules[arg[0]];
}

/* Adds or deletes the rule about the call arg[1]. */
static void edit(int type)
{
    char room[sizeof(struct audit_rule_data) + 256] = {0};
    struct audit_rule_data *rule = (struct audit_rule_data *)room;
    rule->flags = AUDIT_FILTER_EXIT;
    rule->action = AUDIT_ALWAYS;
    rule->mask[AUDIT_WORD(arg[1])] = AUDIT_BIT(arg[1]);
    for (const struct condition *one = conditions(); one->text; one++) {
        size_t bytes = strlen(one->text), at = rule->field_count++;
        rule->fields[at] = one->field;
        rule->values[at] = bytes ? bytes : one->value;
        rule->fieldflags[at] = AUDIT_EQUAL;
        memcpy(rule->buf + rule->buflen, one->text, bytes);
        rule->buflen += bytes;
    }
    ask(type, rule, sizeof *rule + rule->buflen);
}

/* Adds or deletes the rule by which no task is audited. */
static void exclude(int type)
{
    struct audit_rule_data rule = {.flags = AUDIT_FILTER_TASK, .action = AUDIT_NEVER};
    memset(rule.mask, 0xff, sizeof rule.mask);
    ask(type, &rule, sizeof rule);
}

/* Turns audit on. The row is measured in a child: Linux audits only tasks that were made afterwards. */
static void audited(void)
{
    make_file(FILE_PATH, 1);
    make_file(WATCHED, 1);
    need(mkdir(WATCHED ".d", 0755) == 0 || errno == EEXIST, WATCHED ".d");
    control = socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT);
    need(control >= 0, "a socket of audit");
    enable(1);
    if (arg[1])
        edit(AUDIT_ADD_RULE);
    if (arg[2])
        exclude(AUDIT_ADD_RULE);
    pid_t child = fork();
    if (child == 0)
        return;
    int status = 0;
    waitpid(child, &status, 0);
    if (arg[1])
        edit(AUDIT_DEL_RULE);
    if (arg[2])
        exclude(AUDIT_DEL_RULE);
    enable(0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void make(void)
{
    make_file(FILE_PATH, 1);
}

static void opens(long count)
{
    while (count--) {
        int opened = syscall(SYS_openat, AT_FDCWD, FILE_PATH, O_RDONLY);
        need(opened >= 0, "openat");
        close(opened);
    }
}

#define ROW(row, prepared, ...) {.name = "openat+close, " row, .step = 400, .set_up = prepared, .body = opens, .arg = {__VA_ARGS__}}

static const struct probe list[] = {
    ROW("audit off", make, 0),
    ROW("audit on", audited, 0),
    ROW("a task that is not audited", audited, 0, SYS_openat, 1),
    ROW("a rule of another call", audited, 0, SYS_unlinkat),
    ROW("a rule of another user", audited, 1, SYS_openat),
    ROW("a rule of failures", audited, 2, SYS_openat),
    ROW("a watch on writes of another file", audited, 3, SYS_openat),
    ROW("a watch on another file", audited, 4, SYS_openat),
    ROW("a watch on another directory", audited, 5, SYS_openat),
};
SUITE(audit, list);
