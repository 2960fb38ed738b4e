/* What must hold between the model and the headers of the go-dcgm that is compiled against. */
#include "engine.h"

#include <stddef.h>

_Static_assert(GPUSIM_MAX_GPUS == DCGM_MAX_NUM_DEVICES, "GPUs of the model and of DCGM");
_Static_assert(GPUSIM_MAX_GI == DCGM_MAX_INSTANCES_PER_GPU, "instances per GPU, which entity ids are made of");
_Static_assert(GPUSIM_MAX_CI == DCGM_MAX_COMPUTE_INSTANCES_PER_GPU, "compute instances per GPU");
_Static_assert(sizeof(dcgm_link_t) == 4, "a link is an entity id");
_Static_assert(DCGM_FE_GPU_I == 4 && DCGM_FE_GPU_CI == 5 && DCGM_FE_LINK == 6, "entity groups, as go-dcgm numbers them");

/* Readers with buffers of their own count on these offsets (docs of dcgmFieldValue). */
_Static_assert(sizeof(dcgmFieldValue_v1) == 4120 && sizeof(dcgmFieldValue_v2) == 4128, "size of a field value");
_Static_assert(offsetof(dcgmFieldValue_v1, status) == 8 && offsetof(dcgmFieldValue_v1, ts) == 16 && offsetof(dcgmFieldValue_v1, value) == 24, "dcgmFieldValue_v1");
_Static_assert(offsetof(dcgmFieldValue_v2, fieldId) == 12 && offsetof(dcgmFieldValue_v2, status) == 16 && offsetof(dcgmFieldValue_v2, ts) == 24 &&
                   offsetof(dcgmFieldValue_v2, value) == 32,
               "dcgmFieldValue_v2");

/* go-dcgm builds versions by itself (makeVersion2 ..): these are the numbers it uses. */
#define VERSION(macro) ((macro) >> 24)
_Static_assert(VERSION(dcgmConnectV2Params_version) == 2 && VERSION(dcgmConnectV3Params_version) == 1, "connections");
_Static_assert(VERSION(dcgmDeviceAttributes_version) == 3 && VERSION(dcgmDeviceTopology_version2) == 2, "devices");
_Static_assert(VERSION(dcgmMigHierarchy_version) == 2 && VERSION(dcgmGroupInfo_version) == 3, "hierarchy and groups");
_Static_assert(VERSION(dcgmHealthResponse_version) == 5 && VERSION(dcgmPolicy_version) == 1, "health and policy");
_Static_assert(VERSION(dcgmNvLinkStatus_version5) == 5 && VERSION(dcgmProfGetMetricGroups_version) == 3, "links and profiling");
