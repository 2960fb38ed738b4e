/* The model behind the simulated libraries: GPUs, MIG, activity, counters, events,
 * clock, faults and call counters. One model per process, guarded by one mutex.
 *
 * Every library function does
 *
 *     int forced = gpusim_enter("nvmlDeviceGetCount_v2");   // lock, count, due events, faults
 *     ... read gpusim_gpu(i), gpusim_now_us(), ...
 *     gpusim_leave();
 *
 * Times are microseconds since 1970 in the model's clock. Everything that can change with
 * time lives in epochs: a GPU's state is constant inside an epoch, so that the state at any
 * past instant, and integrals over any interval, are known exactly and nothing needs threads. */
#ifndef GPUSIM_MODEL_H
#define GPUSIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPUSIM_MAX_GPUS 32
#define GPUSIM_MAX_GI   8 /* DCGM_MAX_INSTANCES_PER_GPU */
#define GPUSIM_MAX_CI   8 /* per GPU instance */
#define GPUSIM_WHOLE    (-1) /* "no instance": the GPU itself, or all of a GPU instance */
#define GPUSIM_UUID     64

/* A MIG profile of a model, as nvmlGpuInstanceProfileInfo has it. */
typedef struct {
    const char *name;    /* "1g.10gb" */
    unsigned nvml_enum;  /* NVML_GPU_INSTANCE_PROFILE_*: 0 1g, 1 2g, 2 3g, 3 4g, 4 7g, 9 1g with double memory */
    unsigned nvml_id;    /* profile id as in nvidia-smi mig -lgip: 19, 15, 14, 9, 5, 0 */
    unsigned slices;     /* compute slices */
    unsigned mem_slices; /* memory slices: the placement's size */
    unsigned memory_mib;
    unsigned sms;
    unsigned max_count;
} gpusim_profile;

typedef struct {
    const char *name; /* nvmlDeviceGetName */
    unsigned memory_mib, slices, mem_slices, sms; /* slices 0: no MIG */
    double idle_w, max_w;
    unsigned sm_clock_mhz, mem_clock_mhz, idle_clock_mhz;
    unsigned nvlinks, cc_major, cc_minor;
    unsigned pci_device_id, pcie_gen;
    bool gpm;       /* Hopper and later: NVML's GPM */
    bool profiling; /* DCGM profiling fields work */
    const gpusim_profile *profiles;
    unsigned profile_count;
} gpusim_model;

/* a(t) = base + amp * sin(2 pi (t - start) / period + phase), always within [0,1]. */
typedef struct {
    double base, amp, period_s, phase;
} gpusim_activity;

typedef struct {
    unsigned nvml_id; /* compute instance id inside its GPU instance, from 0 */
    unsigned slices;
    unsigned index;   /* position among the GPU's compute instances: DCGM entity id = gpu*8 + index */
    unsigned sms;
    int64_t created_us;
    char uuid[GPUSIM_UUID]; /* "MIG-..." */
    gpusim_activity activity;
} gpusim_ci;

typedef struct {
    unsigned nvml_id; /* 7, 8, .. for 1g; 0 for 7g */
    unsigned index;   /* position: DCGM entity id = gpu*8 + index */
    unsigned placement; /* first memory slice */
    const gpusim_profile *profile;
    int64_t created_us;
    unsigned ci_count;
    gpusim_ci ci[GPUSIM_MAX_CI];
} gpusim_gi;

/* What holds of a GPU from from_us on, until the next epoch. */
typedef struct {
    int64_t from_us;
    bool lost, stale, mig, ecc, persistence, row_remap_failed;
    int64_t counters_from_us;  /* last restart of the volatile counters */
    double energy_offset_mj;   /* energy counter at counters_from_us */
    int64_t blank_until_us;    /* nothing to read before (driver reload) */
    double idle_w, max_w, idle_c, max_c;
    int util_percent;          /* GPU_UTIL override, -1: from activity */
    gpusim_activity activity;  /* of the whole GPU; with MIG the instances' counts instead */
    unsigned gi_count;
    gpusim_gi gi[GPUSIM_MAX_GI];
} gpusim_epoch;

typedef struct {
    unsigned id; /* DCGM id and NVML index */
    const gpusim_model *model;
    char uuid[GPUSIM_UUID], serial[32], pci_bus_id[32]; /* "00000000:1B:00.0" */
    unsigned minor;
    size_t epoch_count, epoch_cap;
    gpusim_epoch *epochs; /* ascending; epochs[0].from_us is the start of the model */
} gpusim_gpu_t;

typedef enum {
    GPUSIM_XID,
    GPUSIM_SBE,
    GPUSIM_DBE,
    GPUSIM_REPLAY,
    GPUSIM_REMAP_CORRECTABLE,
    GPUSIM_REMAP_UNCORRECTABLE,
    GPUSIM_BIND, /* of no GPU: value 1 reinitialising, 2 done */
} gpusim_event_kind;

typedef struct {
    int64_t t_us;
    gpusim_event_kind kind;
    unsigned gpu;
    int gi, ci;     /* NVML ids, GPUSIM_WHOLE where the event has none */
    uint64_t value; /* XID code, or how many */
} gpusim_event;

/* How a field was made to read wrong by a "blank" line. */
typedef enum { GPUSIM_READ_OK, GPUSIM_READ_ABSENT, GPUSIM_READ_NOT_SUPPORTED, GPUSIM_READ_NOT_WATCHED, GPUSIM_READ_GARBAGE } gpusim_read;

/* Locks the model, counts the call, takes over what is due, and answers the code forced by
 * "fail SYMBOL CODE" (0: none). Calls nest. Every enter needs its leave. */
int gpusim_enter(const char *symbol);
void gpusim_leave(void);

/* --- inside enter/leave ------------------------------------------------------------- */

int64_t gpusim_now_us(void);
int64_t gpusim_start_us(void);
unsigned gpusim_gpu_count(void); /* configured, lost ones included */
const gpusim_gpu_t *gpusim_gpu(unsigned gpu); /* NULL: no such GPU */
/* State at t (never NULL for a GPU that exists; before the start: the first epoch). */
const gpusim_epoch *gpusim_epoch_at(const gpusim_gpu_t *g, int64_t t_us);
const gpusim_epoch *gpusim_epoch_now(const gpusim_gpu_t *g);
/* GPU instance and compute instance by NVML id; NULL where there is none. */
const gpusim_gi *gpusim_find_gi(const gpusim_epoch *e, int gi);
const gpusim_ci *gpusim_find_ci(const gpusim_gi *gi, int ci);

/* Mean activity (0..1) of a GPU (gi GPUSIM_WHOLE), GPU instance or compute instance over
 * [t0,t1], t0 == t1 is the instant. Instances are by NVML id; times in which the instance
 * isn't there count as 0. SM activity = graphics engine activity = this. */
double gpusim_activity_mean(const gpusim_gpu_t *g, int gi, int ci, int64_t t0, int64_t t1);
double gpusim_power_w(const gpusim_gpu_t *g, int64_t t_us);
/* Exact integral of the GPU's power over [t0,t1], mJ, over resets. */
double gpusim_energy_between_mj(const gpusim_gpu_t *g, int64_t t0, int64_t t1);
/* Energy counter at t (mJ since its last restart plus an offset derived from the seed). */
uint64_t gpusim_energy_counter_mj(const gpusim_gpu_t *g, int64_t t_us);
double gpusim_temperature_c(const gpusim_gpu_t *g, int64_t t_us);
unsigned gpusim_util_percent(const gpusim_gpu_t *g, int64_t t_us);     /* mean over the last second */
unsigned gpusim_mem_util_percent(const gpusim_gpu_t *g, int64_t t_us);
/* Framebuffer in use, MiB, of a GPU or an instance (compute instances: their GPU instance's). */
unsigned gpusim_fb_used_mib(const gpusim_gpu_t *g, int gi, int64_t t_us);
unsigned gpusim_fb_total_mib(const gpusim_gpu_t *g, int gi, int64_t t_us);
/* Share of activity that a unit is busy: what GPM and the profiling fields have in common. */
typedef enum { GPUSIM_GR, GPUSIM_SM, GPUSIM_OCCUPANCY, GPUSIM_TENSOR, GPUSIM_DRAM, GPUSIM_FP64, GPUSIM_FP32, GPUSIM_FP16, GPUSIM_INT } gpusim_unit;
double gpusim_unit_share(gpusim_unit u); /* unit's activity = share * activity */
double gpusim_pcie_bytes_per_s(const gpusim_gpu_t *g, bool tx, int64_t t0, int64_t t1);
double gpusim_nvlink_bytes_per_s(const gpusim_gpu_t *g, bool tx, int64_t t0, int64_t t1); /* all links */
/* Counter of events of a kind up to t: volatile (since the last restart) or aggregate. */
uint64_t gpusim_event_count(const gpusim_gpu_t *g, gpusim_event_kind kind, bool aggregate, int64_t t_us);
/* Log of events in order of time; stays valid until the next line. */
const gpusim_event *gpusim_events(size_t *count);

/* What "blank" lines say of a DCGM field of an entity at t. */
gpusim_read gpusim_read_override(unsigned gpu, int gi, int ci, unsigned field, int64_t t_us, double *garbage);
/* Code of a "fail-fields" line that holds one of the fields, else 0. */
int gpusim_fail_fields(const unsigned short *fields, unsigned count);
/* Is the host engine there; its generation grows with every start and every reset. */
bool gpusim_hostengine(unsigned *generation);
const char *gpusim_driver_version(void);
uint64_t gpusim_seed(void);

/* --- control, from outside; these lock by themselves ---------------------------------- */

/* Empties the model: no GPUs, virtual clock at 2026-01-01T00:00:00Z, no faults, counters 0. */
void gpusim_reset(void);
/* Carries out one or more lines (separated by newline or ';'). 0, or -1 with the reason. */
int gpusim_do(const char *lines, char *error, size_t error_size);
void gpusim_advance_us(int64_t d);
int64_t gpusim_clock_us(void);
uint64_t gpusim_calls(const char *symbol);
double gpusim_truth_energy_mj(unsigned gpu, int64_t t0, int64_t t1);               /* -1: no such GPU */
double gpusim_truth_activity(unsigned gpu, int gi, int ci, int64_t t0, int64_t t1); /* -1: no such GPU */

#endif
