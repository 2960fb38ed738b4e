/* Goes through the whole of libdcgm.so.4 once, for sanitizers and valgrind: `make check`. The
 * values are asserted by the Go tests; here only memory, and that nothing is refused. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                                \
    do {                                                                          \
        int rc_ = (int)(call);                                                    \
        if (rc_ != 0) {                                                           \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, rc_); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static unsigned samples, violations;

static void line(const char *s)
{
    char error[256] = "";
    if (gpusim_do(s, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static int on_samples(dcgm_field_entity_group_t g, dcgm_field_eid_t id, dcgmFieldValue_v1 *v, int n, void *arg)
{
    (void)g, (void)id, (void)v, (void)arg;
    samples += (unsigned)n;
    return 0;
}

static int on_violation(dcgmPolicyCallbackResponse_t *r, uint64_t arg)
{
    (void)r, (void)arg;
    violations++;
    return 0;
}

/* Cuts, doubles and garbles every line: each must be taken or refused, never more. */
static void mangle_lines(void)
{
    static const char *lines[] = { "gpus 2 model \"NVIDIA A30\"", "mig all 2g.12gb/1c+1c 1g.6gb*2", "activity 0/1/0 0.5 0.25 10", "blank 0/1 1002 garbage 7", "fail x -3 2",
                                   "fail-fields 1-5 -3", "rowremap 0 failed", "at 1e3 xid 1/5/0 31", "hostengine restart", "temp all 20 80" };
    char text[256], error[64];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t n = strlen(lines[i]);
        for (size_t k = 0; k <= n; k++) {
            snprintf(text, sizeof text, "%.*s", (int)k, lines[i]);
            gpusim_do(text, error, sizeof error);
            snprintf(text, sizeof text, "%.*s%s", (int)k, lines[i], lines[i]);
            gpusim_do(text, error, sizeof error);
            snprintf(text, sizeof text, "%s", lines[i]);
            text[k % n] = (char)(k * 37 % 251 + 1);
            gpusim_do(text, error, sizeof error);
        }
    }
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    gpusim_do(text, error, sizeof error);
}

static unsigned watch_everything(dcgmHandle_t h, dcgmGpuGrp_t group, unsigned short *fields)
{
    unsigned count = 0, in_group = 0;
    unsigned short chunk[DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP];
    for (unsigned id = 1; id < 1600; id++) {
        if (DcgmFieldGetById((unsigned short)id) == NULL) {
            continue;
        }
        fields[count++] = chunk[in_group++] = (unsigned short)id;
        if (in_group == DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP) {
            dcgmFieldGrp_t g;
            char name[32];
            snprintf(name, sizeof name, "all%u", count);
            MUST(dcgmFieldGroupCreate(h, (int)in_group, chunk, name, &g));
            MUST(dcgmWatchFields(h, group, g, 1000000, 60, 0));
            gpusim_advance_us(3500000);
            MUST(dcgmGetValuesSince_v2(h, group, g, 0, NULL, on_samples, NULL));
            in_group = 0;
        }
    }
    return count;
}

static void read_everything(dcgmHandle_t h, const unsigned short *fields, unsigned count)
{
    dcgm_field_eid_t ids[DCGM_GROUP_MAX_ENTITIES_V2];
    dcgmFieldValue_v2 *v = malloc(count * sizeof *v);
    for (dcgm_field_entity_group_t kind = DCGM_FE_GPU; v != NULL && kind < DCGM_FE_COUNT; kind++) {
        int n = DCGM_GROUP_MAX_ENTITIES_V2;
        MUST(dcgmGetEntityGroupEntities(h, kind, ids, &n, 0));
        for (int i = 0; i < n && i < 40; i++) {
            dcgmGroupEntityPair_t e = { kind, ids[i] };
            MUST(dcgmEntitiesGetLatestValues(h, &e, 1, (unsigned short *)fields, count, 0, v));
            MUST(dcgmEntitiesGetLatestValues(h, &e, 1, (unsigned short *)fields, count, DCGM_FV_FLAG_LIVE_DATA, v));
        }
    }
    free(v);
}

static void read_inventory(dcgmHandle_t h)
{
    dcgmDeviceAttributes_t attributes = { .version = dcgmDeviceAttributes_version };
    dcgmDeviceTopology_v2 topology = { .version = dcgmDeviceTopology_version2 };
    dcgmNvLinkStatus_v5 links = { .version = dcgmNvLinkStatus_version5 };
    dcgmNvLinkP2PStatus_v1 p2p = { .version = dcgmNvLinkP2PStatus_version1 };
    static dcgmMigHierarchy_v2 hierarchy = { .version = dcgmMigHierarchy_version2 };
    static dcgmProfGetMetricGroups_t groups = { .version = dcgmProfGetMetricGroups_version };
    static dcgmHealthResponse_t health = { .version = dcgmHealthResponse_version };
    DcgmEntityStatus_t status;
    MUST(dcgmGetDeviceAttributes(h, 0, &attributes));
    MUST(dcgmGetDeviceTopology(h, 0, &topology));
    MUST(dcgmGetNvLinkLinkStatus(h, &links));
    MUST(dcgmGetNvLinkP2PStatus(h, &p2p));
    MUST(dcgmGetGpuInstanceHierarchy(h, &hierarchy));
    MUST(dcgmProfGetSupportedMetricGroups(h, &groups));
    MUST(dcgmGetGpuStatus(h, 31, &status));
    MUST(dcgmHealthSet(h, DCGM_GROUP_ALL_GPUS, DCGM_HEALTH_WATCH_ALL));
    MUST(dcgmHealthCheck(h, DCGM_GROUP_ALL_GPUS, &health));
}

int main(void)
{
    static unsigned short fields[2048];
    dcgmHandle_t h;
    dcgmGpuGrp_t group;
    dcgmPolicy_t policy = { .version = dcgmPolicy_version, .condition = DCGM_POLICY_COND_XID };
    dcgmConnectV3Params_t params = { .version = dcgmConnectV3Params_version };
    gpusim_reset();
    mangle_lines();
    gpusim_reset();
    line("gpus 32; mig 1 1g.10gb*7; mig 2 3g.40gb/1c+2c 3g.40gb; at 1 xid 0 79; at 2 lost 3; at 3 back 3; at 4 mig 1 7g.80gb; at 5 driver reload; at 6 stale 4");
    MUST(dcgmInit());
    MUST(dcgmConnect_v3("tcp://node:5555", &params, &h));
    MUST(dcgmPolicySet(h, DCGM_GROUP_ALL_GPUS, &policy, 0));
    MUST(dcgmPolicyRegister_v2(h, DCGM_GROUP_ALL_GPUS, DCGM_POLICY_COND_XID, on_violation, 0));
    MUST(dcgmGroupCreate(h, DCGM_GROUP_DEFAULT_EVERYTHING, "all", &group));
    unsigned count = watch_everything(h, group, fields);
    read_everything(h, fields, count);
    read_inventory(h);
    MUST(dcgmGroupDestroy(h, group));
    line("hostengine restart");
    MUST(dcgmDisconnect(h));
    MUST(dcgmShutdown());
    gpusim_reset();
    printf("%u fields, %u samples, %u violations\n", count, samples, violations);
    return count > 500 && samples > 10000 && violations == 1 ? 0 : 1;
}
