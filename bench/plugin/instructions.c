/*
 * A plugin of QEMU's TCG that counts what a guest executes: -plugin instructions.so,out=FILE[,functions=PART]
 *
 * A program in the guest, whatever its kernel, says where by an instruction that does nothing else:
 *
 *     0f 1f 80 NN NN 4b 53    nopl 0x534bNNNN(%rax)
 *
 * N = 1 begins a part and N = 2 ends it; what others mean is between the program and whoever reads. At each a line goes to FILE, with what all processors have executed so far (one
 * that idles executes nothing):
 *
 *     mark N INSTRUCTIONS
 *
 * With functions=4 every block of code that was executed within the fourth part is listed at the end, with its first address, its
 * length, how often it was entered, and its bytes:
 *
 *     block ADDRESS INSTRUCTIONS TIMES BYTES
 *
 * A block that is left by a fault counts as whole. Interface: QEMU's docs/devel/tcg-plugins.rst, version 1 of it, whose
 * header no Debian package has.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { QEMU_PLUGIN_CB_NO_REGS };
typedef void (*vcpu_udata_callback)(unsigned int vcpu, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, vcpu_udata_callback, int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, vcpu_udata_callback, int flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

enum { PROCESSORS = 64, BYTES = 48, BEGIN = 1, END = 2 };

struct block {
    struct block *next;
    uint64_t address;
    uint32_t instructions;
    uint32_t length;
    uint8_t bytes[BYTES];
    uint64_t times[PROCESSORS];
};

/* A cache line each: a processor writes its own alone. */
static struct {
    uint64_t instructions;
    uint64_t unused[7];
} executed[PROCESSORS];
static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
/* The part whose functions are wanted, those that have begun, and whether it is on. */
static int wanted, begun;
static volatile bool is_on;

static void entered(unsigned int processor, void *data)
{
    struct block *block = data;
    executed[processor % PROCESSORS].instructions += block->instructions;
    if (is_on)
        block->times[processor % PROCESSORS]++;
}

static void marked(unsigned int processor, void *data)
{
    int number = (int)(intptr_t)data;
    uint64_t total = 0;
    (void)processor;
    for (size_t index = 0; index < PROCESSORS; index++)
        total += executed[index].instructions;
    pthread_mutex_lock(&lock);
    fprintf(out, "mark %d %" PRIu64 "\n", number, total);
    fflush(out);
    begun += number == BEGIN;
    if (number == BEGIN || number == END)
        is_on = number == BEGIN && begun == wanted;
    pthread_mutex_unlock(&lock);
}

/* The number of the mark that an instruction is; 0 for any other. */
static int mark(const struct qemu_plugin_insn *insn)
{
    const uint8_t *bytes = qemu_plugin_insn_data(insn);
    static const uint8_t opcode[3] = {0x0f, 0x1f, 0x80};
    if (qemu_plugin_insn_size(insn) != 7 || memcmp(bytes, opcode, 3) != 0 || bytes[5] != 0x4b || bytes[6] != 0x53)
        return 0;
    return bytes[3] | bytes[4] << 8;
}

/* Blocks are translated again now and then, after which both are listed. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    struct block *block = calloc(1, sizeof *block);
    (void)id;
    if (!block)
        abort();
    block->address = qemu_plugin_tb_vaddr(tb);
    block->instructions = qemu_plugin_tb_n_insns(tb);
    for (size_t index = 0; index < block->instructions; index++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
        size_t size = qemu_plugin_insn_size(insn);
        int number = mark(insn);
        if (block->length + size <= BYTES) {
            memcpy(block->bytes + block->length, qemu_plugin_insn_data(insn), size);
            block->length += size;
        }
        if (number)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS, (void *)(intptr_t)number);
    }
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    pthread_mutex_unlock(&lock);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, entered, QEMU_PLUGIN_CB_NO_REGS, block);
}

static void ended(qemu_plugin_id_t id, void *data)
{
    (void)id, (void)data;
    for (struct block *block = blocks; block; block = block->next) {
        uint64_t times = 0;
        for (size_t index = 0; index < PROCESSORS; index++)
            times += block->times[index];
        if (times == 0)
            continue;
        fprintf(out, "block %" PRIx64 " %u %" PRIu64 " ", block->address, block->instructions, times);
        for (uint32_t index = 0; index < block->length; index++)
            fprintf(out, "%02x", block->bytes[index]);
        fputc('\n', out);
    }
    fclose(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments)
{
    (void)info;
    for (int index = 0; index < count; index++) {
        if (strncmp(arguments[index], "out=", 4) == 0)
            out = fopen(arguments[index] + 4, "w");
        else if (strncmp(arguments[index], "functions=", 10) == 0)
            wanted = atoi(arguments[index] + 10);
    }
    if (!out) {
        fprintf(stderr, "instructions: out=FILE is missing, or cannot be written\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
