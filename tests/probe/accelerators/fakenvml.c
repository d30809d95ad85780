/* A small libnvidia-ml.so.1 of our own, for tests: it answers from a file of `key=value` lines named by FAKE_NVML_CONFIG.
 *
 * Keys: count, init (code of nvmlInit), hang (seconds to sleep), abort (1), driver, and by GPU index N:
 *   N.name N.uuid N.memory (bytes) N.device (pci device << 16 | vendor) N.domain N.bus N.cc (major*10+minor) N.sm
 *   N.mig (slices) N.mig.K.memory N.mig.K.uuid N.mig.K.sm N.links (NVLinks up) N.links_total N.peer (bus of the far end)
 *   N.limit N.default N.gen N.gen_max N.width N.width_max N.reasons N.ecc N.ecc_volatile N.persistence N.mode N.virt N.p2p
 *   err.<function>=code for all, N.err.<function>=code for one; hang.<function>=seconds.
 * OLD leaves out what a library of the 450 series lacks; FEW leaves out more: a missing symbol is an old driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Ret;
typedef void *Dev; /* (index + 1) for a GPU, (index + 1) * 1000 + slice for a MIG device */

static char lines[512][256];
static int loaded = -1;

static void load(void) {
    if (loaded >= 0) return;
    loaded = 0;
    const char *path = getenv("FAKE_NVML_CONFIG");
    FILE *file = path ? fopen(path, "r") : NULL;
    while (file && loaded < 512 && fgets(lines[loaded], sizeof lines[0], file)) {
        lines[loaded][strcspn(lines[loaded], "\r\n")] = 0;
        loaded++;
    }
    if (file) fclose(file);
}

static const char *get(const char *key) {
    load();
    size_t length = strlen(key);
    for (int i = 0; i < loaded; i++)
        if (!strncmp(lines[i], key, length) && lines[i][length] == '=') return lines[i] + length + 1;
    return NULL;
}

static int gpu_of(Dev dev) { long n = (long)dev; return (int)(n >= 1000 ? n / 1000 : n) - 1; }
static int slice_of(Dev dev) { long n = (long)dev; return n >= 1000 ? (int)(n % 1000) : -1; }

static const char *find(Dev dev, const char *name) {
    char key[128];
    if (slice_of(dev) >= 0) {
        snprintf(key, sizeof key, "%d.mig.%d.%s", gpu_of(dev), slice_of(dev), name);
        return get(key);
    }
    snprintf(key, sizeof key, "%d.%s", gpu_of(dev), name);
    return get(key);
}

static long long number(Dev dev, const char *name, long long other) {
    const char *found = find(dev, name);
    return found ? strtoll(found, NULL, 0) : other;
}

static Ret fail(Dev dev, const char *function) {
    char key[128];
    snprintf(key, sizeof key, "hang.%s", function);
    if (get(key)) sleep((unsigned)atoi(get(key)));
    snprintf(key, sizeof key, "%d.err.%s", gpu_of(dev), function);
    if (slice_of(dev) < 0 && get(key)) return atoi(get(key));
    snprintf(key, sizeof key, "err.%s", function);
    return get(key) ? atoi(get(key)) : 0;
}

#define TRY(dev) do { Ret code = fail(dev, __func__); if (code) return code; } while (0)

Ret nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (get("abort")) abort();
    if (get("hang")) sleep((unsigned)atoi(get("hang")));
    return get("init") ? atoi(get("init")) : 0;
}
Ret nvmlShutdown(void) { return 0; }
static Ret text(char *out, unsigned size, const char *from) { snprintf(out, size, "%s", from); return 0; }
Ret nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, get("driver") ? get("driver") : "570.86.10"); }
Ret nvmlSystemGetNVMLVersion(char *out, unsigned size) { return text(out, size, "12.570.86.10"); }
Ret nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 12080; return 0; }
Ret nvmlSystemGetCudaDriverVersion(int *out) { *out = 12080; return 0; }
Ret nvmlDeviceGetCount_v2(unsigned *out) { *out = get("count") ? (unsigned)atoi(get("count")) : 0; return 0; }
Ret nvmlDeviceGetHandleByIndex_v2(unsigned index, Dev *out) {
    *out = (Dev)(long)(index + 1);
    TRY(*out);
    return 0;
}
Ret nvmlDeviceGetName(Dev dev, char *out, unsigned size) { TRY(dev); return text(out, size, find(dev, "name") ? find(dev, "name") : "Test GPU"); }
Ret nvmlDeviceGetUUID(Dev dev, char *out, unsigned size) {
    char made[64];
    TRY(dev);
    snprintf(made, sizeof made, "GPU-00000000-0000-0000-0000-%012d", gpu_of(dev));
    return text(out, size, find(dev, "uuid") ? find(dev, "uuid") : made);
}
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
Ret nvmlDeviceGetMemoryInfo(Dev dev, Memory *out) {
    TRY(dev);
    out->total = (unsigned long long)number(dev, "memory", 0);
    out->used = 0;
    out->free = out->total;
    return 0;
}
#ifndef OLD
Ret nvmlDeviceGetMemoryInfo_v2(Dev dev, Memory2 *out) {
    TRY(dev);
    if (out->version != 0x02000028) return 25; /* argument version mismatch */
    out->total = (unsigned long long)number(dev, "memory", 0);
    out->reserved = out->used = 0;
    out->free = out->total;
    return 0;
}
#endif
typedef struct { char legacy[16]; unsigned domain, bus, device, pci, subsystem; char id[32]; } Pci;
Ret nvmlDeviceGetPciInfo_v3(Dev dev, Pci *out) {
    TRY(dev);
    memset(out, 0, sizeof *out);
    out->domain = (unsigned)number(dev, "domain", 0);
    out->bus = (unsigned)number(dev, "bus", gpu_of(dev) + 1);
    out->pci = (unsigned)number(dev, "device", 0x233010de);
    snprintf(out->id, sizeof out->id, "%08X:%02X:00.0", out->domain, out->bus);
    return 0;
}
Ret nvmlDeviceGetCudaComputeCapability(Dev dev, int *major, int *minor) {
    TRY(dev);
    int cc = (int)number(dev, "cc", 90);
    *major = cc / 10;
    *minor = cc % 10;
    return 0;
}
#ifndef FEW
Ret nvmlDeviceGetMinorNumber(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)gpu_of(dev); return 0; }
Ret nvmlDeviceGetPersistenceMode(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "persistence", 1); return 0; }
Ret nvmlDeviceGetComputeMode(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "mode", 0); return 0; }
Ret nvmlDeviceGetVirtualizationMode(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "virt", 0); return 0; }
Ret nvmlDeviceGetComputeRunningProcesses_v3(Dev dev, unsigned *count, void *infos) { (void)infos; TRY(dev); *count = 0; return 0; }
Ret nvmlDeviceGetCurrPcieLinkGeneration(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "gen", 5); return 0; }
Ret nvmlDeviceGetMaxPcieLinkGeneration(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "gen_max", 5); return 0; }
Ret nvmlDeviceGetCurrPcieLinkWidth(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "width", 16); return 0; }
Ret nvmlDeviceGetMaxPcieLinkWidth(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "width_max", 16); return 0; }
Ret nvmlDeviceGetEccMode(Dev dev, unsigned *now, unsigned *next) { TRY(dev); *now = *next = (unsigned)number(dev, "ecc", 1); return 0; }
Ret nvmlDeviceGetTotalEccErrors(Dev dev, unsigned type, unsigned scope, unsigned long long *out) {
    TRY(dev);
    (void)type;
    *out = scope == 0 ? (unsigned long long)number(dev, "ecc_volatile", 0) : 0;
    return 0;
}
Ret nvmlDeviceGetPowerManagementLimit(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "limit", 700000); return 0; }
Ret nvmlDeviceGetPowerManagementDefaultLimit(Dev dev, unsigned *out) { TRY(dev); *out = (unsigned)number(dev, "default", 700000); return 0; }
Ret nvmlDeviceGetPowerManagementLimitConstraints(Dev dev, unsigned *low, unsigned *high) { TRY(dev); *low = 200000; *high = 700000; return 0; }
Ret nvmlDeviceGetPowerUsage(Dev dev, unsigned *out) { TRY(dev); *out = 71000; return 0; }
Ret nvmlDeviceGetClockInfo(Dev dev, unsigned kind, unsigned *out) { (void)kind; TRY(dev); *out = 345; return 0; }
Ret nvmlDeviceGetMaxClockInfo(Dev dev, unsigned kind, unsigned *out) { (void)kind; TRY(dev); *out = 1980; return 0; }
Ret nvmlDeviceGetTemperature(Dev dev, unsigned kind, unsigned *out) { (void)kind; TRY(dev); *out = 31; return 0; }
Ret nvmlDeviceGetUtilizationRates(Dev dev, unsigned *out) { TRY(dev); out[0] = 3; out[1] = 0; return 0; }
Ret nvmlDeviceGetCurrentClocksThrottleReasons(Dev dev, unsigned long long *out) { TRY(dev); *out = (unsigned long long)number(dev, "reasons", 1); return 0; }
#ifndef OLD
Ret nvmlDeviceGetCurrentClocksEventReasons(Dev dev, unsigned long long *out) { return nvmlDeviceGetCurrentClocksThrottleReasons(dev, out); }
#endif
Ret nvmlDeviceGetNvLinkState(Dev dev, unsigned link, unsigned *out) {
    TRY(dev);
    if ((long long)link >= number(dev, "links_total", number(dev, "links", 0))) return 2; /* invalid argument: no such link */
    *out = (long long)link < number(dev, "links", 0);
    return 0;
}
Ret nvmlDeviceGetNvLinkVersion(Dev dev, unsigned link, unsigned *out) { (void)link; TRY(dev); *out = 4; return 0; }
Ret nvmlDeviceGetNvLinkRemotePciInfo_v2(Dev dev, unsigned link, Pci *out) {
    (void)link;
    TRY(dev);
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)number(dev, "peer", 0);
    return out->bus ? 0 : 3;
}
Ret nvmlDeviceGetP2PStatus(Dev one, Dev two, unsigned index, unsigned *out) { (void)two; (void)index; TRY(one); *out = (unsigned)number(one, "p2p", 0); return 0; }
#endif
#ifndef OLD
Ret nvmlDeviceGetMigMode(Dev dev, unsigned *now, unsigned *next) {
    TRY(dev);
    if (!find(dev, "mig")) return 3; /* not supported */
    *now = *next = number(dev, "mig", -1) >= 0;
    return 0;
}
Ret nvmlDeviceGetMaxMigDeviceCount(Dev dev, unsigned *out) { TRY(dev); *out = 7; return 0; }
Ret nvmlDeviceGetMigDeviceHandleByIndex(Dev dev, unsigned index, Dev *out) {
    TRY(dev);
    if ((long long)index >= number(dev, "mig", 0)) return 6; /* not found */
    *out = (Dev)(long)((gpu_of(dev) + 1) * 1000 + (int)index);
    return 0;
}
Ret nvmlDeviceGetGpuInstanceId(Dev dev, unsigned *out) { TRY(dev); *out = 7 + (unsigned)slice_of(dev); return 0; }
Ret nvmlDeviceGetComputeInstanceId(Dev dev, unsigned *out) { TRY(dev); *out = 0; return 0; }
typedef struct { unsigned sm, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices; unsigned long long memory_mb; } Attributes;
Ret nvmlDeviceGetAttributes_v2(Dev dev, Attributes *out) {
    TRY(dev);
    memset(out, 0, sizeof *out);
    out->sm = (unsigned)number(dev, "sm", 0);
    return 0;
}
#endif
