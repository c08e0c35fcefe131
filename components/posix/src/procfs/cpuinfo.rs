//! `/proc/cpuinfo`: what CPUID says, in Linux's words (proc(5); Intel SDM volume 2, CPUID).
use alloc::{string::String, vec::Vec};
use core::fmt::Write;
use raw_cpuid::{CpuId, CpuIdReaderNative};

/// One paragraph a processor.
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
    let mut text = String::new();
    for processor in 0..count {
        let _ = write!(
            text,
            "processor\t: {processor}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: {brand}\nstepping\t: {stepping}\nphysical id\t: 0\nsiblings\t: {count}\n\
             core id\t\t: {processor}\ncpu cores\t: {count}\napicid\t\t: {processor}\nfpu\t\t: yes\n\
             fpu_exception\t: yes\nwp\t\t: yes\nflags\t\t: {flags}\nclflush size\t: 64\n\
             address sizes\t: {} bits physical, {} bits virtual\n\n",
            widths.0, widths.1
        );
    }
    text.into_bytes()
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
