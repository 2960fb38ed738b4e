/* GPU models and their MIG profiles, from NVIDIA's MIG user guide (tables of supported
 * profiles) and data sheets. SM counts are what nvidia-smi mig -lgip shows. */
#include "state.h"

#include <stdio.h>
#include <string.h>

/* name, NVML enum, profile id, slices, memory slices, MiB, SMs, at most */
static const gpusim_profile h100_80[] = {
    { "1g.10gb", 0, 19, 1, 1, 9984, 16, 7 },   { "1g.20gb", 9, 15, 1, 2, 20096, 26, 4 },
    { "2g.20gb", 1, 14, 2, 2, 20096, 32, 3 },  { "3g.40gb", 2, 9, 3, 4, 40448, 60, 2 },
    { "4g.40gb", 3, 5, 4, 4, 40448, 64, 1 },   { "7g.80gb", 4, 0, 7, 8, 81152, 132, 1 },
};
static const gpusim_profile h200[] = {
    { "1g.18gb", 0, 19, 1, 1, 16384, 16, 7 },  { "1g.35gb", 9, 15, 1, 2, 33280, 26, 4 },
    { "2g.35gb", 1, 14, 2, 2, 33280, 32, 3 },  { "3g.71gb", 2, 9, 3, 4, 71424, 60, 2 },
    { "4g.71gb", 3, 5, 4, 4, 71424, 64, 1 },   { "7g.141gb", 4, 0, 7, 8, 143104, 132, 1 },
};
static const gpusim_profile a100_40[] = {
    { "1g.5gb", 0, 19, 1, 1, 4864, 14, 7 },    { "1g.10gb", 9, 15, 1, 2, 9984, 14, 4 },
    { "2g.10gb", 1, 14, 2, 2, 9984, 28, 3 },   { "3g.20gb", 2, 9, 3, 4, 20096, 42, 2 },
    { "4g.20gb", 3, 5, 4, 4, 20096, 56, 1 },   { "7g.40gb", 4, 0, 7, 8, 40192, 98, 1 },
};
static const gpusim_profile a100_80[] = {
    { "1g.10gb", 0, 19, 1, 1, 9728, 14, 7 },   { "1g.20gb", 9, 15, 1, 2, 19968, 14, 4 },
    { "2g.20gb", 1, 14, 2, 2, 19968, 28, 3 },  { "3g.40gb", 2, 9, 3, 4, 40192, 42, 2 },
    { "4g.40gb", 3, 5, 4, 4, 40192, 56, 1 },   { "7g.80gb", 4, 0, 7, 8, 80640, 98, 1 },
};
static const gpusim_profile a30[] = {
    { "1g.6gb", 0, 14, 1, 1, 5952, 14, 4 },
    { "2g.12gb", 1, 5, 2, 2, 12032, 28, 2 },
    { "4g.24gb", 3, 0, 4, 4, 24064, 56, 1 },
};

#define PROFILES(p) p, sizeof p / sizeof *p

/* name, MiB, slices, memory slices, SMs, idle W, max W, SM/memory/idle MHz, NVLinks, compute
 * capability, PCI device id, PCIe generation, GPM, profiling, profiles */
static const gpusim_model models[] = {
    { "NVIDIA H100 80GB HBM3", 81559, 7, 8, 132, 70, 700, 1980, 2619, 345, 18, 9, 0, 0x233010de, 5, true, true, PROFILES(h100_80) },
    { "NVIDIA H200", 143771, 7, 8, 132, 75, 700, 1980, 3201, 345, 18, 9, 0, 0x233510de, 5, true, true, PROFILES(h200) },
    { "NVIDIA A100-SXM4-80GB", 81920, 7, 8, 108, 60, 400, 1410, 1593, 210, 12, 8, 0, 0x20b210de, 4, false, true, PROFILES(a100_80) },
    { "NVIDIA A100-SXM4-40GB", 40960, 7, 8, 108, 50, 400, 1410, 1215, 210, 12, 8, 0, 0x20b010de, 4, false, true, PROFILES(a100_40) },
    { "NVIDIA A30", 24576, 4, 4, 56, 30, 165, 1440, 1215, 210, 0, 8, 0, 0x20b710de, 4, false, true, PROFILES(a30) },
    { "NVIDIA L40S", 46068, 0, 0, 142, 35, 350, 2520, 9001, 210, 0, 8, 9, 0x26b910de, 4, false, true, NULL, 0 },
    { "Tesla T4", 15360, 0, 0, 40, 10, 70, 1590, 5001, 300, 0, 7, 5, 0x1eb810de, 3, false, true, NULL, 0 },
    { "NVIDIA GeForce RTX 3090", 24576, 0, 0, 82, 25, 350, 1695, 9751, 210, 0, 8, 6, 0x220410de, 4, false, false, NULL, 0 },
};

const gpusim_model *gpusim_find_model(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].name, name) == 0) {
            return &models[i];
        }
    }
    return NULL;
}

const char *gpusim_model_names(void)
{
    static char names[512];
    size_t used = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", models[i].name);
    }
    return names;
}

const gpusim_profile *gpusim_find_profile(const gpusim_model *m, const char *name)
{
    for (unsigned i = 0; i < m->profile_count; i++) {
        if (strcmp(m->profiles[i].name, name) == 0) {
            return &m->profiles[i];
        }
    }
    return NULL;
}
