/*
 * The part of QEMU's TCG plugin interface that the plugins use, version 1 (QEMU's docs/devel/tcg-plugins.rst), whose header no Debian
 * package has; and the marks that a program in the guest, whatever its kernel, makes by an instruction that does
 * nothing else:
 *
 *     0f 1f 80 NN NN 4b 53    nopl 0x534bNNNN(%rax)
 *
 * N = 1 begins a part and N = 2 ends it; what others mean is between the program and whoever reads.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { QEMU_PLUGIN_CB_NO_REGS };
/* Reads alone are not told by QEMU 7.2, and reads are told to who asked for writes. */
enum { QEMU_PLUGIN_MEM_RW = 3 };
typedef void (*vcpu_udata_callback)(unsigned int vcpu, void *data);
typedef void (*vcpu_mem_callback)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, vcpu_udata_callback, int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, vcpu_udata_callback, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, vcpu_mem_callback, int flags, int kinds, void *data);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

enum { PROCESSORS = 64, BEGIN = 1, END = 2 };

/* The number of the mark that an instruction is; 0 for any other. */
static int mark(const struct qemu_plugin_insn *insn)
{
    const uint8_t *bytes = qemu_plugin_insn_data(insn);
    static const uint8_t opcode[3] = {0x0f, 0x1f, 0x80};
    if (qemu_plugin_insn_size(insn) != 7 || memcmp(bytes, opcode, 3) != 0 || bytes[5] != 0x4b || bytes[6] != 0x53)
        return 0;
    return bytes[3] | bytes[4] << 8;
}
