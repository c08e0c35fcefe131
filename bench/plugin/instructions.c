/*
 * A plugin of QEMU's TCG that counts what a guest executes: -plugin instructions.so,out=FILE[,functions=PART]
 *
 * At each mark of a program in the guest (plugin.h) a line goes to FILE, with what all processors have executed so far (one
 * that idles executes nothing):
 *
 *     mark N INSTRUCTIONS
 *
 * With functions=4 every block of code that was executed within the fourth part is listed at the end, with its first address, its
 * length, how often it was entered, and its bytes:
 *
 *     block ADDRESS INSTRUCTIONS TIMES BYTES
 *
 * A block that is left by a fault counts as whole.
 */
#include "plugin.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 48 };

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
