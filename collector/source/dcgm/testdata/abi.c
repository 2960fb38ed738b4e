/* Holds shim.h against the headers that go-dcgm was built with. */
#include "shim.h"

#include <stdbool.h>

#include "dcgm_agent.h"
#include "dcgm_fields.h"
#include "dcgm_structs.h"
#include "dcgm_test_apis.h"

#define SAME(what, ours, theirs) _Static_assert((ours) == (theirs), what)
#define SAME_PLACE(a, fa, b, fb)                                             \
    SAME(#a "." #fa " offset", offsetof(a, fa), offsetof(b, fb));            \
    SAME(#a "." #fa " size", sizeof(((a *)0)->fa), sizeof(((b *)0)->fb))

SAME("entity", sizeof(gl_entity), sizeof(dcgmGroupEntityPair_t));
SAME_PLACE(gl_entity, group, dcgmGroupEntityPair_t, entityGroupId);
SAME_PLACE(gl_entity, id, dcgmGroupEntityPair_t, entityId);

SAME("value v1", sizeof(gl_value_v1), sizeof(dcgmFieldValue_v1));
SAME_PLACE(gl_value_v1, version, dcgmFieldValue_v1, version);
SAME_PLACE(gl_value_v1, field, dcgmFieldValue_v1, fieldId);
SAME_PLACE(gl_value_v1, type, dcgmFieldValue_v1, fieldType);
SAME_PLACE(gl_value_v1, status, dcgmFieldValue_v1, status);
SAME_PLACE(gl_value_v1, ts_us, dcgmFieldValue_v1, ts);
SAME_PLACE(gl_value_v1, value, dcgmFieldValue_v1, value);

SAME("value v2", sizeof(gl_value_v2), sizeof(dcgmFieldValue_v2));
SAME_PLACE(gl_value_v2, version, dcgmFieldValue_v2, version);
SAME_PLACE(gl_value_v2, group, dcgmFieldValue_v2, entityGroupId);
SAME_PLACE(gl_value_v2, entity, dcgmFieldValue_v2, entityId);
SAME_PLACE(gl_value_v2, field, dcgmFieldValue_v2, fieldId);
SAME_PLACE(gl_value_v2, type, dcgmFieldValue_v2, fieldType);
SAME_PLACE(gl_value_v2, status, dcgmFieldValue_v2, status);
SAME_PLACE(gl_value_v2, ts_us, dcgmFieldValue_v2, ts);
SAME_PLACE(gl_value_v2, value, dcgmFieldValue_v2, value);

SAME("connect v2", GL_VERSION(gl_connect_v2, 2), dcgmConnectV2Params_version2);
SAME_PLACE(gl_connect_v2, persist, dcgmConnectV2Params_v2, persistAfterDisconnect);
SAME_PLACE(gl_connect_v2, timeout_ms, dcgmConnectV2Params_v2, timeoutMs);
SAME_PLACE(gl_connect_v2, unix_socket, dcgmConnectV2Params_v2, addressIsUnixSocket);
SAME("connect v3", GL_VERSION(gl_connect_v3, 1), dcgmConnectV3Params_version1);
SAME_PLACE(gl_connect_v3, persist, dcgmConnectV3Params_v1, persistAfterDisconnect);
SAME_PLACE(gl_connect_v3, timeout_ms, dcgmConnectV3Params_v1, timeoutMs);

SAME("hierarchy", GL_VERSION(gl_hierarchy, 2), dcgmMigHierarchy_version2);
SAME("instances", GL_MAX_INSTANCES, DCGM_MAX_HIERARCHY_INFO);
SAME_PLACE(gl_hierarchy, count, dcgmMigHierarchy_v2, count);
SAME_PLACE(gl_hierarchy, instances, dcgmMigHierarchy_v2, entityList);
SAME_PLACE(gl_instance, entity, dcgmMigHierarchyInfo_v2, entity);
SAME_PLACE(gl_instance, parent, dcgmMigHierarchyInfo_v2, parent);
SAME("instance info", sizeof(gl_instance) - offsetof(gl_instance, gpu_uuid), sizeof(dcgmMigEntityInfo_t));
SAME("instance uuid", offsetof(gl_instance, gpu_uuid), offsetof(dcgmMigHierarchyInfo_v2, info));
SAME("instance numbers", offsetof(gl_instance, info), offsetof(dcgmMigHierarchyInfo_v2, info) + offsetof(dcgmMigEntityInfo_t, nvmlGpuIndex));

SAME("devices", GL_MAX_DEVICES, DCGM_MAX_NUM_DEVICES);
SAME("string", GL_TYPE_STRING, DCGM_FT_STRING);
SAME("double", 'd', DCGM_FT_DOUBLE);
SAME("int64", 'i', DCGM_FT_INT64);
SAME("timestamp", 't', DCGM_FT_TIMESTAMP);
SAME("handle", sizeof(uintptr_t), sizeof(dcgmHandle_t));
SAME("group", sizeof(uintptr_t), sizeof(dcgmGpuGrp_t));
SAME("field group", sizeof(uintptr_t), sizeof(dcgmFieldGrp_t));
SAME("return code", sizeof(int), sizeof(dcgmReturn_t));
SAME("embedded handle", 0x7fffffff, DCGM_EMBEDDED_HANDLE);
SAME("live data", 1, DCGM_FV_FLAG_LIVE_DATA);

SAME("int64 blank", 0x7ffffffffffffff0, DCGM_INT64_BLANK);
SAME("int32 blank", 0x7ffffff0, DCGM_INT32_BLANK);
_Static_assert(1ll << 47 == DCGM_FP64_BLANK, "double blank");

SAME("not supported", -6, DCGM_ST_NOT_SUPPORTED);
SAME("no data", -14, DCGM_ST_NO_DATA);
SAME("not watched", -16, DCGM_ST_NOT_WATCHED);
SAME("no permission", -17, DCGM_ST_NO_PERMISSION);
SAME("GPU lost", -18, DCGM_ST_GPU_IS_LOST);
SAME("connection", -21, DCGM_ST_CONNECTION_NOT_VALID);
SAME("root", -29, DCGM_ST_REQUIRES_ROOT);
SAME("module", -33, DCGM_ST_MODULE_NOT_LOADED);
SAME("profiling", -36, DCGM_ST_PROFILING_NOT_SUPPORTED);
SAME("profiling library", -37, DCGM_ST_PROFILING_LIBRARY_ERROR);
SAME("detached", -67, DCGM_ST_GPUS_DETACHED);

SAME("driver", 1, DCGM_FI_SYSTEM_DRIVER_VERSION);
SAME("CUDA", 5, DCGM_FI_CUDA_DRIVER_VERSION);
SAME("bind event", 6, DCGM_FI_SYSTEM_GPU_BIND_EVENT);
SAME("bind completed", 2, DcgmBUEventStateSystemReinitializationCompleted);
SAME("name", 50, DCGM_FI_DEV_GPU_NAME);
SAME("serial", 53, DCGM_FI_DEV_BOARD_SERIAL);
SAME("UUID", 54, DCGM_FI_DEV_GPU_UUID);
SAME("minor", 55, DCGM_FI_DEV_GPU_MINOR_NUMBER);
SAME("PCI", 57, DCGM_FI_DEV_PCI_BUS_ID);
SAME("VBIOS", 85, DCGM_FI_DEV_VBIOS_VERSION);

/* The functions that the shim calls by its own types. */
dcgmReturn_t (*const latest)(dcgmHandle_t, dcgmGroupEntityPair_t *, unsigned, unsigned short *, unsigned, unsigned, dcgmFieldValue_v2 *) = dcgmEntitiesGetLatestValues;
dcgmReturn_t (*const since)(dcgmHandle_t, dcgmGpuGrp_t, dcgmFieldGrp_t, long long, long long *, dcgmFieldValueEntityEnumeration_f, void *) = dcgmGetValuesSince_v2;
int (*const callback)(dcgm_field_entity_group_t, dcgm_field_eid_t, dcgmFieldValue_v1 *, int, void *) = (dcgmFieldValueEntityEnumeration_f)0;
dcgmReturn_t (*const connect_v2)(const char *, dcgmConnectV2Params_v2 *, dcgmHandle_t *) = dcgmConnect_v2;
dcgmReturn_t (*const connect_v3)(const char *, dcgmConnectV3Params_v1 *, dcgmHandle_t *) = dcgmConnect_v3;
dcgmReturn_t (*const disconnect)(dcgmHandle_t) = dcgmDisconnect;
dcgmReturn_t (*const devices)(dcgmHandle_t, unsigned *, int *) = dcgmGetAllDevices;
