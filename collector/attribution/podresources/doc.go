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
//   - What the kubelet lists is somebody's: only a pod known to be finished holds
//     nothing (R4), and is counted. See below for one that no list of pods has.
//   - Tenants write pods of 1.5 MB, and labels and namespaces without number: a
//     list of pods is decoded pod by pod, in pages, over several polls if need be,
//     and only configured labels and what was named lately are kept.
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
// A pod that the kubelet lists and a list of pods begun after that does not have is
// a static pod whose mirror is not there yet, or one that was deleted by force.
// Where it was known before, it goes on holding under its UID until the kubelet
// lists it no more. Else Read fails at first, which stale_after bridges; when a
// second list, one poll later, lacks it too, it holds under its namespace and name,
// without a UID, until a list has it. It is asked about every pods_every then, and
// gputally_kubelet_unknown_pods counts it all the time.
//
// When the pods can't be asked, what is known still answers for pods that have
// been listed without a break, for pods_stale_after (60 s); then Read fails.
// Labels of namespaces outlive their namespaces_every tenfold in the same way. A
// list that is longer than the time goes on at the next poll, in smaller pages
// where not one of them came, and is as old as its first page. The kubelet answers
// in one piece only: with pods: kubelet that piece must arrive within timeout.
//
// Replicas (::K, vgpuK) are counted over all allocatable ids of the node. The
// kubelet leaves out unhealthy ones, so the count of a device of which a replica is
// held, and that is missing there, stays what it was; who has all of a device keeps
// no count alive, because sharing may have been switched off. Shares of a DRA device
// have no known number.
//
// What can go wrong: the kubelet restarts (asked anew on the next Read, over a
// new connection), the socket's folder isn't mounted or not readable (the error
// says which), the node's name differs from Kubernetes' (an answer without pods
// while some hold GPUs is an error), a resource was renamed (logged, and counted
// by gputally_kubelet_ignored_devices, until it is configured), a MIG device was
// made on demand by the DRA driver, so that no ResourceSlice has its UUID (it is
// taken from the driver's checkpoint; without that an error), a monitoring pod has
// devices by a claim with adminAccess (counted, holds nothing).
package podresources
