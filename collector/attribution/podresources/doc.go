// Package podresources reads from the kubelet which pod holds which GPU, MIG
// instance or replica of one. Data in: the kubelet's pod-resources socket, and
// where configured the pods (kubelet or API server), the namespaces' labels and
// the node's ResourceSlices. Data out: an attribution.Snapshot.
//
// Invariants:
//   - All or nothing: a device of a configured resource or driver that can't be
//     understood, an owner that can't be asked for, or a kubelet that does not
//     answer fails the Read. Nobody's GPU becomes free by an error.
//   - One Holding per pod, device and replica: containers of a pod that share a
//     device are one owner, and the first of them in the kubelet's order is named.
//     Two replicas of one GPU in one pod are two Holdings.
//   - The kubelet's list comes first and the pods are asked after it, so a listed
//     pod that a fresh answer does not know has gone. Gone and finished pods are
//     dropped and counted (R4).
//
// Precision of a pod's UID: a pod is asked about afresh when it appears in the
// kubelet's list, when its devices change, and every pods_every. A pod that was
// recreated under its old name between two polls, with the very same devices, is
// therefore booked on its predecessor for at most pods_every; one that was away
// for a single poll, or got other devices, is right at once. A finished pod's
// successor of the same name and devices is free for at most as long. With pods:
// none the owner is the name alone, and pods that are finished but still listed
// (kubelets before 1.34 do that) go on holding.
//
// When the pods can't be asked, what is known still answers for pods that have
// been listed without a break, for pods_stale_after (60 s); then Read fails.
// Labels of namespaces outlive their namespaces_every tenfold in the same way.
//
// Replicas (::K, vgpuK) are counted over all allocatable ids of the node. The
// kubelet leaves out unhealthy ones, so the count of a held device that is
// missing there stays what it was. Shares of a DRA device have no known number.
//
// What can go wrong: the kubelet restarts (asked anew on the next Read, over a
// new connection), the socket's folder isn't mounted or not readable (the error
// says which), the node's name differs from Kubernetes' (an answer without pods
// while some hold GPUs is an error), a static pod is not yet mirrored (with pods:
// api it counts as gone until it is), a resource was renamed (logged, and counted
// by gpuledger_kubelet_ignored_devices, until it is configured), a MIG device was
// made on demand by the DRA driver, so that no ResourceSlice has its UUID (it is
// taken from the driver's checkpoint; without that an error), a monitoring pod has
// devices by a claim with adminAccess (counted, holds nothing).
package podresources
