//! Interrupts and exceptions: the table, the stubs, and the handling of the kernel's own faults.
//!
//! A trap from user mode is not handled on top of an interrupted kernel: its stub stores the
//! program's registers in the `Registers` that `user::run` was given and returns from there (`user.rs`).
//! A trap from the kernel keeps the registers on the stack ([`Frame`]). Double faults, NMIs and machine
//! checks have stacks of their own and may come at any instruction, with any GS base loaded, also a program's that looks like
//! the kernel's. They find the processor's data by the word above their frame, and leave the base as it was.
//!
//! A device may send a message with the vector of an exception, if no IOMMU stops that. The local APIC tells such an
//! interrupt from an exception; it lacks the error code, which shows in the alignment of the stack. Source: Intel SDM volume
//! 3, chapter 6.
use super::{
    apic, cpu, fpu, paging, percpu,
    registers::{pop_registers, push_registers},
    user, usercopy,
};
use crate::{
    irq,
    memory::{space::USER_END, stacks},
    panic, thread,
};
use calls::{SERVER_BASE, SERVER_END};
use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use x86::{
    descriptor::TablePointer,
    trap::{self, Frame},
};

global_asm!(
    ".macro skerry_save_registers",
    push_registers!(),
    ".endm
    .macro skerry_restore_registers",
    pop_registers!(),
    ".endm",
    r#"

    .pushsection .text.traps, "ax", @progbits
    # One stub a vector, 16 bytes each.
    .balign 16
    .global skerry_stubs
skerry_stubs:
    .set vector, 0
    .rept 256
    .balign 16
    .if vector == 8 || vector == 10 || vector == 11 || vector == 12 || vector == 13 || vector == 14 || vector == 17 || vector == 21 || vector == 29 || vector == 30
    test spl, 8
    jz 1f
    .endif
    push 0
1:  push vector
    .if vector == 2 || vector == 8 || vector == 18
    jmp trap_either
    .else
    jmp trap_common
    .endif
    .set vector, vector + 1
    .endr

    .balign 64
trap_common:
    test byte ptr [rsp + 24], 3
    jnz skerry_trap_user
    skerry_save_registers
    push 2
    popfq
    mov rdi, rsp
    call trap_kernel
    .global skerry_trap_handled
skerry_trap_handled:
    skerry_restore_registers
    add rsp, 16
    iretq

    # Keeps the GS base in ebx and ebp, and loads what stands above the frame.
trap_either:
    skerry_save_registers
    push 2
    popfq
    mov ecx, 0xc0000101
    rdmsr
    mov ebx, eax
    mov ebp, edx
    mov eax, [rsp + {frame}]
    mov edx, [rsp + {frame} + 4]
    wrmsr
    mov rdi, rsp
    call trap_special
    mov ecx, 0xc0000101
    mov eax, ebx
    mov edx, ebp
    wrmsr
    skerry_restore_registers
    add rsp, 16
    iretq
    .popsection
    "#,
    frame = const size_of::<Frame>(),
);

unsafe extern "C" {
    static skerry_stubs: u8;
    static skerry_trap_handled: u8;
}

/// The interrupt table. The boot processor writes it before any other runs; later only hardware reads it.
static IDT: [[AtomicU64; 2]; 256] = [const { [const { AtomicU64::new(0) }; 2] }; 256];

/// Loads the interrupt table, the system call entry and extended state on this processor.
pub fn init_cpu() {
    if percpu::cpu() == 0 {
        for (vector, words) in IDT.iter().enumerate() {
            let stub = (&raw const skerry_stubs) as u64 + vector as u64 * 16;
            let gate = trap::gate(vector, stub);
            words.iter().zip(gate).for_each(|(word, value)| word.store(value, Relaxed));
        }
    }
    let pointer = TablePointer::new(IDT.as_ptr() as u64, size_of_val(&IDT));
    // SAFETY: a static table of valid gates.
    unsafe { asm!("lidt [{}]", in(reg) &pointer, options(readonly, nostack, preserves_flags)) };
    if cpu::features().has_smap {
        usercopy::set_smap();
    }
    fpu::init_cpu();
    user::init_cpu();
}

/// Handles a trap from the kernel, with interrupts off.
#[unsafe(no_mangle)]
extern "sysv64" fn trap_kernel(frame: &mut Frame) {
    if frame.vector >= 32 {
        interrupt(frame.vector as u8);
        thread::preempt_from_interrupt();
        return;
    }
    let address = if frame.vector == 14 { paging::fault_address() } else { 0 };
    match usercopy::fixup(frame.rip) {
        _ if apic::end_stray(frame.vector as u8) => {}
        Some(to) if matches!(frame.vector, 13 | 14) && may_fault(address) => frame.rip = to,
        _ => die(frame, address),
    }
}

/// Returns whether `address` can be one of a program or a component.
fn may_fault(address: u64) -> bool {
    address < USER_END || (SERVER_BASE..SERVER_END).contains(&address)
}

/// Handles interrupt `vector`; interrupts are off.
#[inline]
pub fn interrupt(vector: u8) {
    let nesting = &percpu::this().interrupt_nesting;
    nesting.store(nesting.load(Relaxed) + 1, Relaxed);
    irq::dispatch(vector);
    nesting.store(nesting.load(Relaxed) - 1, Relaxed);
}

/// Returns the instruction and the frame pointer of the kernel code that was interrupted.
pub fn interrupted() -> (u64, u64) {
    let mut frame = cpu::frame_pointer();
    loop {
        // SAFETY: a handler's frame, of the chain that begins with the call in `trap_common`.
        let [outer, address] = unsafe { *(frame as *const [u64; 2]) };
        if address == (&raw const skerry_trap_handled) as u64 {
            // SAFETY: what was pushed before that call.
            let place = unsafe { *((frame + 16) as *const Frame) };
            return (place.rip, place.rbp);
        }
        frame = outer;
    }
}

/// Handles an NMI, double fault or machine check.
#[unsafe(no_mangle)]
extern "sysv64" fn trap_special(frame: &mut Frame) {
    if frame.vector == 2 {
        if panic::is_panicking() {
            cpu::halt_forever();
        }
        return thread::sample(frame.rip, frame.rbp);
    }
    if !apic::end_stray(frame.vector as u8) {
        die(frame, paging::fault_address())
    }
}

fn die(frame: &Frame, address: u64) -> ! {
    let is_guard = stacks::is_guard(address) || address & !0xfff == super::boot::sections().guard;
    let Frame { vector, error_code, rip, rbp, rsp, .. } = *frame;
    let trap = text::Trap { vector, error_code, address, is_guard, rsp };
    panic::die_at(format_args!("{trap}"), rip, rbp)
}
