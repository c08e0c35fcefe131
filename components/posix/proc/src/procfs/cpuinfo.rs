//! `/proc/cpuinfo`: the processors' properties from CPUID, with Linux's names (proc(5); Intel SDM
//! volume 2, CPUID).
use alloc::{string::String, vec::Vec};
use core::fmt::Write;
use raw_cpuid::{CpuId, CpuIdReader, CpuIdReaderNative, CpuIdResult};

/// Returns one paragraph for each processor.
pub fn cpuinfo() -> Vec<u8> {
    let id = CpuId::new();
    let count = rt::thread::processors().0;
    let vendor =
        id.get_vendor_info().map_or_else(String::new, |vendor| String::from(vendor.as_str()));
    let brand = id
        .get_processor_brand_string()
        .map_or_else(|| String::from("unknown"), |brand| String::from(brand.as_str().trim()));
    let (family, model, stepping) = id
        .get_feature_info()
        .map_or((0, 0, 0), |info| (info.family_id(), info.model_id(), info.stepping_id()));
    let widths = id
        .get_processor_capacity_feature_info()
        .map_or((36, 48), |info| (info.physical_address_bits(), info.linear_address_bits()));
    let flags = flags(&id);
    let level = CpuIdReaderNative.cpuid1(0).eax;
    let l2_kib = id.get_l2_l3_cache_and_tlb_info().map_or(0, |info| info.l2cache_size());
    let power = power_words();
    let khz = tsc_khz();
    let mut text = String::new();
    for processor in 0..count {
        let _ = write!(
            text,
            "processor\t: {processor}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: {brand}\nstepping\t: {stepping}\ncpu MHz\t\t: {}.{:03}\ncache size\t: {l2_kib} KB\nphysical id\t: 0\nsiblings\t: {count}\n\
             core id\t\t: {processor}\ncpu cores\t: {count}\napicid\t\t: {processor}\ninitial apicid\t: {processor}\nfpu\t\t: yes\n\
             fpu_exception\t: yes\ncpuid level\t: {level}\nwp\t\t: yes\nflags\t\t: {flags}\nbugs\t\t:\n\
             bogomips\t: {}.{:02}\n",
            khz / 1000,
            khz % 1000,
            khz / 500,
            khz % 500 / 5,
        );
        if let Some(pages) = second_tlb_pages() {
            let _ = writeln!(text, "TLB size\t: {pages} 4K pages");
        }
        let _ = write!(
            text,
            "clflush size\t: 64\ncache_alignment\t: 64\n\
             address sizes\t: {} bits physical, {} bits virtual\npower management:{power}\n\n",
            widths.0, widths.1
        );
    }
    text.into_bytes()
}

/// Returns the rate of the time stamp counter in kilohertz.
fn tsc_khz() -> u64 {
    let scale = rt::time::tsc_scale();
    scale.map_or(0, |scale| {
        ((1_000_000 << scale.shift) / u128::from(scale.multiplier.max(1))) as u64
    })
}

/// Returns an extended leaf of CPUID, if the processor has it.
fn extended_leaf(number: u32) -> Option<CpuIdResult> {
    const EXTENDED_LEAVES: u32 = 0x8000_0000;
    let last = CpuIdReaderNative.cpuid1(EXTENDED_LEAVES).eax;
    (number <= last).then(|| CpuIdReaderNative.cpuid1(number))
}

/// Returns the number of pages of 4 KiB in the second-level TLB, if AMD's leaf has it.
fn second_tlb_pages() -> Option<u32> {
    const CACHES: u32 = 0x8000_0006;
    const ENTRIES: u32 = 0xfff;
    let leaf = extended_leaf(CACHES)?.ebx;
    let pages = (leaf >> 16 & ENTRIES) + (leaf & ENTRIES);
    (pages > 0).then_some(pages)
}

/// Returns Linux's names of the power management features in AMD's leaf.
fn power_words() -> String {
    const POWER: u32 = 0x8000_0007;
    const WORDS: [&str; 13] = [
        "ts",
        "fid",
        "vid",
        "ttp",
        "tm",
        "stc",
        "100mhzsteps",
        "hwpstate",
        "",
        "cpb",
        "eff_freq_ro",
        "proc_feedback",
        "acc_power",
    ];
    let bits = extended_leaf(POWER).map_or(0, |leaf| leaf.edx);
    let is_told = |(bit, word): &(usize, &str)| bits >> bit & 1 != 0 && !word.is_empty();
    WORDS
        .into_iter()
        .enumerate()
        .filter(is_told)
        .fold(String::new(), |text, (_, word)| text + " " + word)
}

fn flags(id: &CpuId<CpuIdReaderNative>) -> String {
    let mut words = Vec::new();
    if let Some(info) = id.get_feature_info() {
        words.extend([
            (info.has_fpu(), "fpu"),
            (info.has_tsc(), "tsc"),
            (info.has_msr(), "msr"),
            (info.has_pae(), "pae"),
            (info.has_cmpxchg8b(), "cx8"),
            (info.has_apic(), "apic"),
            (info.has_cmov(), "cmov"),
            (info.has_clflush(), "clflush"),
            (info.has_mmx(), "mmx"),
            (info.has_fxsave_fxstor(), "fxsr"),
            (info.has_sse(), "sse"),
            (info.has_sse2(), "sse2"),
            (info.has_sse3(), "pni"),
            (info.has_ssse3(), "ssse3"),
            (info.has_fma(), "fma"),
            (info.has_cmpxchg16b(), "cx16"),
            (info.has_sse41(), "sse4_1"),
            (info.has_sse42(), "sse4_2"),
            (info.has_popcnt(), "popcnt"),
            (info.has_aesni(), "aes"),
            (info.has_xsave(), "xsave"),
            (info.has_avx(), "avx"),
            (info.has_rdrand(), "rdrand"),
            (info.has_hypervisor(), "hypervisor"),
        ]);
    }
    if let Some(info) = id.get_extended_processor_and_feature_identifiers() {
        words.extend([
            (info.has_syscall_sysret(), "syscall"),
            (info.has_execute_disable(), "nx"),
            (info.has_rdtscp(), "rdtscp"),
            (info.has_64bit_mode(), "lm"),
        ]);
    }
    if let Some(info) = id.get_extended_feature_info() {
        words.extend([
            (info.has_fsgsbase(), "fsgsbase"),
            (info.has_bmi1(), "bmi1"),
            (info.has_avx2(), "avx2"),
            (info.has_smep(), "smep"),
            (info.has_bmi2(), "bmi2"),
            (info.has_rdseed(), "rdseed"),
            (info.has_adx(), "adx"),
            (info.has_smap(), "smap"),
            (info.has_umip(), "umip"),
            (info.has_pku(), "pku"),
        ]);
    }
    let names: Vec<&str> =
        words.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    names.join(" ")
}
