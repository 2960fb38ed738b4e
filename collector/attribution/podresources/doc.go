// Package podresources reads from the kubelet which pod holds which GPU, MIG instance or replica. Data in: the
// kubelet's pod-resources socket, and if configured the pods (kubelet or API server), the namespaces' labels and the
// node's ResourceSlices. Data out: an attribution.Snapshot.
//
// Invariants:
//   - All or nothing: Read fails if a device of a configured resource or driver can't be parsed, an owner can't be
//     queried, or the kubelet does not answer. No GPU becomes free by an error.
//   - One Holding per pod, device and replica: containers of a pod that share a device are one owner, named after the
//     first of them in the kubelet's order. Two replicas of one GPU in one pod are two Holdings.
//   - Every device that the kubelet lists is held, except by a pod known to be finished (R4), which is counted. For a
//     pod missing in the list of pods see below.
//   - Tenants can create pods of 1.5 MB, and any number of labels and namespaces: a list of pods is decoded pod by
//     pod, in pages, over several polls if necessary, and only configured labels and recently used namespaces are
//     stored.
//
// Precision of a pod's UID: a pod is queried again when it appears in the kubelet's list, when its devices change,
// and every pods_every. If a pod is recreated with its old name and the same devices between two polls, its time is
// booked on its predecessor for at most pods_every; if it was missing in a single poll, or got other devices, the UID
// is right at once. A finished pod's successor with the same name and devices is free for at most as long. With pods:
// none the owner is the name only, and finished pods that are still listed (by kubelets before 1.34) keep holding.
//
// A pod that the kubelet lists but a later list of pods doesn't contain is a static pod whose mirror pod doesn't
// exist yet, or was deleted by force. If it was known before, it keeps holding under its UID until the kubelet lists
// it no more. Otherwise Read fails at first, which stale_after bridges; if a second list, one poll later, doesn't
// contain it either, it holds under its namespace and name, without a UID, until a list contains it. It is then
// queried every pods_every, and counted by gputally_kubelet_unknown_pods.
//
// If the query for pods fails, known facts remain valid, for pods that were listed without a break, for
// pods_stale_after (60 s); then Read fails. Labels of namespaces remain valid for ten times namespaces_every. If a
// list takes longer than the timeout it continues at the next poll, with smaller pages if not one page arrived; its
// age is that of its first page. The kubelet has only one page: with pods: kubelet it must arrive within timeout.
//
// Replicas (::K, vgpuK) are counted over all allocatable ids of the node. The kubelet omits unhealthy ids, so a
// device that is missing there keeps its count while one of its replicas is held; holding the whole device doesn't
// preserve its count, because sharing may have been switched off. The number of shares of a DRA device is unknown.
//
// Errors: the kubelet restarts (queried again by the next Read, over a new connection); the socket's directory isn't
// mounted or not readable (the error distinguishes them); the node's name differs from Kubernetes' (an answer without
// pods while some hold GPUs is an error); a resource was renamed (logged, and counted by
// gputally_kubelet_ignored_devices, until it is configured); a MIG device was created on demand by the DRA driver, so
// that no ResourceSlice has its UUID (it is read from the driver's checkpoint; without that an error); a monitoring
// pod has devices by a claim with adminAccess (counted, holds nothing).
package podresources
