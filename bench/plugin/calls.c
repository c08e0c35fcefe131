/*
 * A plugin of QEMU's TCG that follows the calls of Skerry's kernel: -plugin calls.so,out=FILE,functions=FILE,stubs=ADDRESS
 * and, of these, what is wanted; ./x profile reads what it writes (xtask/harness/src/profile).
 *
 *     timer=VECTOR               the interrupt that is a clock tick
 *     begin=ADDRESS,end=ADDRESS  counts from when the first is executed until the second is; without, between marks (plugin.h)
 *     part=N                     counts within the Nth such part alone
 *     events=N                   lists so many entries and exits
 *     trace=ADDRESS              ... of this function, and what it calls, alone; may be given more than once
 *
 * Each call and each return in the kernel touches a word of some stack, and the word's address says which stack: a
 * frame is what a call pushed, known by that word, and goes when a return takes a word that lies as high or higher. So a
 * switch to another thread, and a stack that is given up, need no special case. A function that is entered by a jump takes the
 * place of the one that jumped. An interrupt of the kernel is a frame on the stack it interrupted and, for the sums, nobody's
 * callee. What a processor does in user mode, and from there until it has a kernel stack, lies on a stack of its own.
 *
 * FILE, in the end, FUNCTION being an address, `user`, `interrupt-N` or `unknown`:
 *
 *     + STACK CLOCK OWN FUNCTION     entered, when the processor and the stack had executed so many instructions
 *     - STACK CLOCK OWN              left
 *     total KERNEL USER MASKING      instructions; those in the kernel that switch interrupts off or on, or save or load flags
 *     ticks COUNT INSTRUCTIONS MOST  from the interrupt to its end or the switch to another thread
 *     node N PARENT FUNCTION CALLS RETURNS NET MOST LEAST   a path of calls; net of the returns from calls seen whole
 *
 * A block that is left by a fault counts as whole.
 */
#include "plugin.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 512, NODES = 1 << 18, HASH = 1 << 20, VECTORS = 256, STUB_BYTES = 16, TRACED = 64 };
/* nucleus/src/memory/stacks.rs: slots of 64 KiB. The boot stack lies in the image. */
enum { STACK_SHIFT = 16 };
#define KERNEL 0xffff800000000000
#define IMAGE 0xffffffff80000000
#define HIGHEST UINT64_MAX
/* Functions by their place in the list, then those that are none. */
enum { UNKNOWN = 1 << 24, USER, INTERRUPT };

struct block {
    uint64_t address;
    uint32_t instructions, masking, function;
    int vector, turn;
    bool is_kernel, is_iret;
};

struct node {
    uint32_t parent, function;
    uint64_t calls, returns, net, most, least;
};

struct frame {
    uint64_t slot, net;
    uint32_t node, function, part;
    bool is_known, is_interrupt;
};

struct stack {
    struct stack *next;
    uint64_t key, clock;
    uint32_t number, depth;
    struct frame frames[DEPTH];
};

struct cpu {
    struct stack *stack, *own;
    /* The block under way, until the call or return that ends it was seen. */
    const struct block *block;
    uint64_t clock, tick_began;
    bool is_user, has_iret, is_ticking;
};

static atomic_flag lock = ATOMIC_FLAG_INIT;
static struct cpu cpus[PROCESSORS];
static struct stack *stacks;
static uint32_t stack_count;
/* The first is the root. */
static struct node nodes[NODES];
static uint32_t node_count = 1, hash[HASH];
static uint64_t *functions;
static uint32_t function_count;
static FILE *out;
static uint64_t stubs, begin_address, end_address, traced[TRACED];
static uint32_t traced_count, part, begun;
static int timer = -1;
static long events;
static bool is_on;
static struct stack *tracing;
static uint32_t tracing_depth;
static uint64_t kernel, user, masking, ticks, tick_sum, tick_most;

static void enter(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        __builtin_ia32_pause();
}

static void leave(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

/* The last function that begins at or before `address`. */
static uint32_t function_at(uint64_t address)
{
    uint32_t low = 0, high = function_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (functions[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : UNKNOWN;
}

static void put_function(uint32_t function)
{
    if (function < function_count)
        fprintf(out, "%" PRIx64, functions[function]);
    else if (function >= INTERRUPT)
        fprintf(out, "interrupt-%u", function - INTERRUPT);
    else
        fputs(function == USER ? "user" : "unknown", out);
}

static uint32_t child(uint32_t parent, uint32_t function)
{
    uint32_t at = (parent * 2654435761u ^ function * 40503u) % HASH;
    for (; hash[at]; at = (at + 1) % HASH)
        if (nodes[hash[at]].parent == parent && nodes[hash[at]].function == function)
            return hash[at];
    if (node_count == NODES)
        return parent;
    nodes[node_count] = (struct node){.parent = parent, .function = function, .least = UINT64_MAX};
    return hash[at] = node_count++;
}

static bool is_traced(uint32_t function)
{
    for (uint32_t index = 0; index < traced_count; index++)
        if (function < function_count && functions[function] == traced[index])
            return true;
    return false;
}

static bool is_listed(const struct stack *stack)
{
    return is_on && events > 0 && (traced_count == 0 || tracing == stack);
}

static void list_entry(struct cpu *cpu, struct stack *stack, uint32_t function)
{
    if (is_on && !tracing && is_traced(function)) {
        tracing = stack;
        tracing_depth = stack->depth;
    }
    if (!is_listed(stack))
        return;
    events--;
    fprintf(out, "+ %u %" PRIu64 " %" PRIu64 " ", stack->number, cpu->clock, stack->clock);
    put_function(function);
    fputc('\n', out);
}

static void list_exit(struct cpu *cpu, struct stack *stack)
{
    if (is_listed(stack)) {
        events--;
        fprintf(out, "- %u %" PRIu64 " %" PRIu64 "\n", stack->number, cpu->clock, stack->clock);
    }
    if (tracing == stack && tracing_depth == stack->depth)
        tracing = NULL;
}

static void pop(struct cpu *cpu, struct stack *stack)
{
    struct frame *frame = &stack->frames[stack->depth - 1];
    if (frame->is_known) {
        struct node *node = &nodes[frame->node];
        node->net += frame->net;
        if (is_on && frame->part == begun) {
            node->returns++;
            node->most = frame->net > node->most ? frame->net : node->most;
            node->least = frame->net < node->least ? frame->net : node->least;
        }
        list_exit(cpu, stack);
    }
    stack->depth--;
}

/* Frames of words at or below `slot` are over. */
static void pop_to(struct cpu *cpu, struct stack *stack, uint64_t slot)
{
    while (stack->depth && stack->frames[stack->depth - 1].slot <= slot)
        pop(cpu, stack);
}

static void push(struct cpu *cpu, struct stack *stack, uint64_t slot)
{
    if (stack->depth == DEPTH)
        pop(cpu, stack);
    stack->frames[stack->depth++] = (struct frame){.slot = slot};
}

/* The function of the top frame. */
static void know(struct cpu *cpu, struct stack *stack, uint32_t function, bool is_interrupt)
{
    struct frame *frame = &stack->frames[stack->depth - 1];
    uint32_t parent = stack->depth == 1 || is_interrupt ? 0 : frame[-1].node;
    frame->function = function;
    frame->node = child(parent, function);
    frame->is_interrupt = is_interrupt;
    frame->is_known = true;
    frame->part = is_on ? begun : 0;
    nodes[frame->node].calls += is_on;
    list_entry(cpu, stack, function);
}

static struct stack *new_stack(uint64_t key)
{
    struct stack *stack = calloc(1, sizeof *stack);
    if (!stack)
        abort();
    stack->key = key;
    stack->number = stack_count++;
    stack->next = stacks;
    return stacks = stack;
}

static void end_tick(struct cpu *cpu)
{
    uint64_t spent = cpu->clock - cpu->tick_began;
    if (cpu->is_ticking && is_on) {
        ticks++;
        tick_sum += spent;
        tick_most = spent > tick_most ? spent : tick_most;
    }
    cpu->is_ticking = false;
}

static void use_stack(struct cpu *cpu, struct stack *stack)
{
    if (cpu->stack == stack)
        return;
    if (cpu->stack == cpu->own)
        pop_to(cpu, cpu->own, HIGHEST);
    else if (stack != cpu->own)
        end_tick(cpu);
    cpu->stack = stack;
}

/* The stack that the word at `slot` is of becomes the processor's. */
static struct stack *stack_of(struct cpu *cpu, uint64_t slot)
{
    uint64_t key = slot >= IMAGE ? 1 : slot >> STACK_SHIFT;
    struct stack *stack = cpu->stack;
    if (stack->key != key) {
        for (stack = stacks; stack && stack->key != key; stack = stack->next)
            ;
        use_stack(cpu, stack ? stack : new_stack(key));
    }
    return cpu->stack;
}

static struct cpu *cpu_of(unsigned int number)
{
    struct cpu *cpu = &cpus[number % PROCESSORS];
    if (!cpu->own)
        cpu->stack = cpu->own = new_stack(0);
    return cpu;
}

/* The processor whose block ends in the access; NULL where it is another: QEMU 7.2 tells accesses of a later instruction's
 * helper, too. */
static struct cpu *ending(unsigned int number, const void *block)
{
    struct cpu *cpu = cpu_of(number);
    if (cpu->block != block)
        return NULL;
    cpu->block = NULL;
    return cpu;
}

static void called(unsigned int number, qemu_plugin_meminfo_t info, uint64_t slot, void *data)
{
    if (!qemu_plugin_mem_is_store(info))
        return;
    enter();
    struct cpu *cpu = ending(number, data);
    if (cpu) {
        struct stack *stack = stack_of(cpu, slot);
        pop_to(cpu, stack, slot);
        push(cpu, stack, slot);
    }
    leave();
}

static void returned(unsigned int number, qemu_plugin_meminfo_t info, uint64_t slot, void *data)
{
    (void)info;
    enter();
    struct cpu *cpu = ending(number, data);
    if (cpu)
        pop_to(cpu, stack_of(cpu, slot), slot);
    leave();
}

static void end_interrupt(struct cpu *cpu)
{
    struct stack *stack = cpu->stack;
    uint32_t depth = stack->depth;
    end_tick(cpu);
    while (depth && !stack->frames[depth - 1].is_interrupt)
        depth--;
    while (depth && stack->depth >= depth)
        pop(cpu, stack);
}

static void interrupt(struct cpu *cpu, int vector)
{
    struct stack *stack = cpu->stack;
    /* Below what it interrupted, above all that its handler calls. */
    push(cpu, stack, stack->depth ? stack->frames[stack->depth - 1].slot - 1 : HIGHEST);
    know(cpu, stack, INTERRUPT + vector, true);
    if (vector == timer) {
        cpu->is_ticking = true;
        cpu->tick_began = cpu->clock;
    }
}

/* Which function the processor is in, at a block of the kernel. */
static void place(struct cpu *cpu, const struct block *block)
{
    if (cpu->is_user)
        pop_to(cpu, cpu->own, HIGHEST);
    else if (cpu->has_iret)
        end_interrupt(cpu);
    cpu->is_user = false;
    if (block->vector >= 0)
        interrupt(cpu, block->vector);
    struct stack *stack = cpu->stack;
    struct frame *top = stack->depth ? &stack->frames[stack->depth - 1] : NULL;
    if (top && top->is_known) {
        if (top->is_interrupt || top->function == block->function)
            return;
        uint64_t slot = top->slot;
        pop(cpu, stack);
        push(cpu, stack, slot);
    } else if (!top) {
        push(cpu, stack, HIGHEST);
    }
    know(cpu, stack, block->function, false);
}

static void place_user(struct cpu *cpu)
{
    if (cpu->is_user)
        return;
    end_tick(cpu);
    use_stack(cpu, cpu->own);
    cpu->is_user = true;
    push(cpu, cpu->own, HIGHEST);
    know(cpu, cpu->own, USER, false);
}

static void turn(int number)
{
    if (number == BEGIN && !is_on) {
        begun++;
        is_on = part == 0 || part == begun;
    } else if (number == END) {
        is_on = false;
    }
}

static void marked(unsigned int number, void *data)
{
    (void)number;
    enter();
    turn((int)(intptr_t)data);
    leave();
}

static void entered(unsigned int number, void *data)
{
    const struct block *block = data;
    enter();
    struct cpu *cpu = cpu_of(number);
    if (block->turn)
        turn(block->turn);
    if (block->is_kernel)
        place(cpu, block);
    else
        place_user(cpu);
    cpu->block = block;
    cpu->has_iret = block->is_iret;
    cpu->clock += block->instructions;
    if (block->is_kernel)
        cpu->stack->clock += block->instructions;
    if (is_on) {
        cpu->stack->frames[cpu->stack->depth - 1].net += block->instructions;
        *(block->is_kernel ? &kernel : &user) += block->instructions;
        masking += block->masking;
    }
    leave();
}

/* The opcode of an instruction of 64-bit mode, with what follows it. */
static const uint8_t *opcode(const struct qemu_plugin_insn *insn)
{
    static const uint8_t prefixes[] = {0x66, 0xf2, 0xf3, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65};
    const uint8_t *bytes = qemu_plugin_insn_data(insn), *end = bytes + qemu_plugin_insn_size(insn) - 1;
    while (bytes < end && (memchr(prefixes, *bytes, sizeof prefixes) || (*bytes & 0xf0) == 0x40))
        bytes++;
    return bytes;
}

static void follow(struct block *block, struct qemu_plugin_insn *insn)
{
    enum { CLI = 0xfa, STI = 0xfb, PUSHF = 0x9c, POPF = 0x9d, CALL = 0xe8, RET = 0xc3, RET_POP = 0xc2, IRET = 0xcf, GROUP = 0xff };
    enum { NEAR_CALL = 2 };
    const uint8_t *bytes = opcode(insn);
    bool is_call = bytes[0] == CALL || (bytes[0] == GROUP && (bytes[1] >> 3 & 7) == NEAR_CALL);
    block->masking += bytes[0] == CLI || bytes[0] == STI || bytes[0] == PUSHF || bytes[0] == POPF;
    block->is_iret = bytes[0] == IRET;
    if (is_call)
        qemu_plugin_register_vcpu_mem_cb(insn, called, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, block);
    else if (bytes[0] == RET || bytes[0] == RET_POP)
        qemu_plugin_register_vcpu_mem_cb(insn, returned, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, block);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    struct block *block = calloc(1, sizeof *block);
    (void)id;
    if (!block)
        abort();
    block->address = qemu_plugin_tb_vaddr(tb);
    block->instructions = qemu_plugin_tb_n_insns(tb);
    block->is_kernel = block->address >= KERNEL;
    block->function = function_at(block->address);
    block->vector = block->address - stubs < VECTORS * STUB_BYTES ? (int)((block->address - stubs) / STUB_BYTES) : -1;
    block->turn = block->address == begin_address ? BEGIN : block->address == end_address ? END : 0;
    for (size_t index = 0; index < block->instructions; index++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
        int number = begin_address ? 0 : mark(insn);
        if (block->is_kernel)
            follow(block, insn);
        if (number)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS, (void *)(intptr_t)number);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, entered, QEMU_PLUGIN_CB_NO_REGS, block);
}

static void ended(qemu_plugin_id_t id, void *data)
{
    (void)id, (void)data;
    enter();
    for (struct stack *stack = stacks; stack; stack = stack->next)
        for (uint32_t index = 0; index < stack->depth; index++)
            nodes[stack->frames[index].node].net += stack->frames[index].net;
    fprintf(out, "total %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", kernel, user, masking);
    fprintf(out, "ticks %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", ticks, tick_sum, tick_most);
    for (uint32_t index = 1; index < node_count; index++) {
        const struct node *node = &nodes[index];
        fprintf(out, "node %u %u ", index, node->parent);
        put_function(node->function);
        fprintf(out, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", node->calls, node->returns, node->net,
                node->most, node->returns ? node->least : 0);
    }
    fclose(out);
}

/* A list of addresses, ascending, one a line. */
static void read_functions(const char *path)
{
    FILE *file = fopen(path, "r");
    uint64_t address;
    if (!file)
        return;
    while (fscanf(file, "%" SCNx64, &address) == 1) {
        if (function_count % 1024 == 0 && !(functions = realloc(functions, (function_count + 1024) * sizeof *functions)))
            abort();
        functions[function_count++] = address;
    }
    fclose(file);
}

static void take(const char *name, const char *value)
{
    uint64_t address = strtoull(value, NULL, 16);
    if (strcmp(name, "out") == 0)
        out = fopen(value, "w");
    else if (strcmp(name, "functions") == 0)
        read_functions(value);
    else if (strcmp(name, "stubs") == 0)
        stubs = address;
    else if (strcmp(name, "begin") == 0)
        begin_address = address;
    else if (strcmp(name, "end") == 0)
        end_address = address;
    else if (strcmp(name, "trace") == 0 && traced_count < TRACED)
        traced[traced_count++] = address;
    else if (strcmp(name, "timer") == 0)
        timer = atoi(value);
    else if (strcmp(name, "part") == 0)
        part = atoi(value);
    else if (strcmp(name, "events") == 0)
        events = atol(value);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments)
{
    (void)info;
    for (int index = 0; index < count; index++) {
        char *value = strchr(arguments[index], '=');
        if (value) {
            *value = 0;
            take(arguments[index], value + 1);
        }
    }
    if (!out || !function_count || !stubs) {
        fprintf(stderr, "calls: out, functions and stubs are needed\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
