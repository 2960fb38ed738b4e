package podresources

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gputally/gputally/collector/attribution"
)

const slicesPath = "/apis/resource.k8s.io/v1/resourceslices"

func sliceList(items ...object) object {
	return object{"kind": "ResourceSliceList", "metadata": object{}, "items": items}
}

func slice(generation int, devices ...object) object {
	return object{"spec": object{
		"driver": "gpu.nvidia.com", "nodeName": node,
		"pool": object{"name": node, "generation": generation, "resourceSliceCount": 1}, "devices": devices,
	}}
}

func board(name, uuid string) object {
	return object{"name": name, "attributes": object{
		"type": object{"string": "gpu"}, "uuid": object{"string": uuid}, "driverVersion": object{"version": "580.1.2"}, "index": object{"int": 3},
	}}
}

func mig(name, uuid string) object {
	return object{"name": name, "attributes": object{
		"gpu.nvidia.com/type": object{"string": "mig"}, "uuid": object{"string": uuid},
		"parentUUID": object{"string": gpuB}, "profile": object{"string": "1g.6gb"},
	}}
}

// claim is a v1.ResourceClaim.
func claim(results ...object) object {
	return object{"kind": "ResourceClaim", "status": object{"allocation": object{"devices": object{"results": results}}}}
}

func result(device string, admin bool) object {
	return object{"driver": "gpu.nvidia.com", "pool": node, "device": device, "request": "r", "adminAccess": admin}
}

// newDRARig is a Reader on a node with one board and one MIG device of DRA.
func newDRARig(t *testing.T, change ...func(*Config)) (*rig, *fakeKube) {
	t.Helper()
	kube := newFakeKube(t)
	r := newRig(t, append(change, func(c *Config) { c.API = kube.endpoint() })...)
	kube.claims = claim()
	kube.set(slicesPath, sliceList(slice(2, board("gpu-0", gpuA), mig("gpu-1-mig-1g6gb-14-0", migA)), slice(1, board("gpu-7", gpuB))))
	return r, kube
}

func TestDRA(t *testing.T) {
	r, kube := newDRARig(t)
	other := &podresourcesv1.ClaimResource{DriverName: "compute-domain.nvidia.com", PoolName: node, DeviceName: "channel-0"}
	r.kubelet.set(
		pod("a", claimed("one", "gpu", draResource("gpu-0"), other), claimed("two", "gpu", draResource("gpu-0"))),
		pod("b", claimed("c", "mig-x", draResource("gpu-1-mig-1g6gb-14-0"))),
		pod("c", claimed("c", "gpu", draResource("gpu-0"))))
	want := []attribution.Holding{
		// The claim that two containers share is held once by their pod; the MIG
		// device is its own, not its parent.
		whole(gpuA, "a", "one", ""), whole(migA, "b", "c", ""), whole(gpuA, "c", "c", ""),
	}
	wantHoldings(t, r.read(t), want...)
	r.clock.Advance(time.Hour)
	wantHoldings(t, r.read(t), want...)
	if got := kube.count(slicesPath); got != 1 {
		t.Errorf("asked for ResourceSlices %d times, want once", got)
	}
	if want := slicesPath + "?fieldSelector=spec.nodeName%3Dgpu-node-1"; kube.queries[0] != want {
		t.Errorf("question: got %s, want %s", kube.queries[0], want)
	}
}

// The device of a name changes when MIG is laid out anew; whoever holds it keeps
// what he was given, and who comes later gets the new one.
func TestDRADeviceOfTheSameName(t *testing.T) {
	const migB = "MIG-00000000-6cb7-59b6-be7e-21c4ac35c3b6"
	r, kube := newDRARig(t)
	a := pod("a", claimed("c", "claim-a", draResource("gpu-1-mig-1g6gb-14-0")))
	b := pod("b", claimed("c", "claim-b", draResource("gpu-1-mig-1g6gb-14-0")))
	r.kubelet.set(a)
	wantHoldings(t, r.read(t), whole(migA, "a", "c", ""))
	kube.set(slicesPath, sliceList(slice(3, mig("gpu-1-mig-1g6gb-14-0", migB))))
	r.kubelet.set(a, b)
	wantHoldings(t, r.read(t), whole(migA, "a", "c", ""), whole(migB, "b", "c", ""))
	r.kubelet.set(b)
	r.read(t)
	r.kubelet.set(a, b)
	wantHoldings(t, r.read(t), whole(migB, "a", "c", ""), whole(migB, "b", "c", ""))
}

func TestDRAOlderAPIs(t *testing.T) {
	const v1beta1 = "/apis/resource.k8s.io/v1beta1/resourceslices"
	r, kube := newDRARig(t)
	device := board("gpu-0", gpuA)
	kube.set(slicesPath, nil)
	kube.set(v1beta1, sliceList(slice(1, object{"name": "gpu-0", "basic": object{"attributes": device["attributes"]}})))
	r.kubelet.set(pod("a", claimed("c", "gpu", draResource("gpu-0"))))
	wantHoldings(t, r.read(t), whole(gpuA, "a", "c", ""))
	// The version that answered is asked first from then on, until it is gone.
	r.kubelet.set(pod("b", claimed("c", "gpu", draResource("gpu-0"))))
	r.read(t)
	if got := kube.count(slicesPath); got != 1 {
		t.Errorf("asked for v1 %d times, want once", got)
	}
	kube.set(v1beta1, nil)
	kube.set("/apis/resource.k8s.io/v1beta2/resourceslices", sliceList(slice(1, device)))
	r.kubelet.set(pod("c", claimed("c", "gpu", draResource("gpu-0"))))
	wantHoldings(t, r.read(t), whole(gpuA, "c", "c", ""))

	kube.set("/apis/resource.k8s.io/v1beta2/resourceslices", nil)
	r.kubelet.set(pod("d", claimed("c", "gpu", draResource("gpu-0"))))
	r.fails(t, "look up DRA devices of 1 grants", "query API server", "status 404")
}

// A share of a device with consumable capacity is a replica of it.
func TestDRAShares(t *testing.T) {
	r, _ := newDRARig(t)
	one, two := draResource("gpu-0"), draResource("gpu-0")
	first, second := "share-1", "share-2"
	one.ShareId, two.ShareId = &first, &second
	r.kubelet.set(pod("a", claimed("c", "gpu", one)), pod("b", claimed("c", "gpu", two)))
	a, b := whole(gpuA, "a", "c", ""), whole(gpuA, "b", "c", "")
	a.Replica, b.Replica = first, second
	wantHoldings(t, r.read(t), a, b)
}

func TestDRADeviceFromCDI(t *testing.T) {
	r, _ := newDRARig(t)
	cdi := func(names ...string) *podresourcesv1.ClaimResource {
		c := &podresourcesv1.ClaimResource{DriverName: "gpu.nvidia.com", PoolName: node}
		for _, name := range names {
			c.CdiDevices = append(c.CdiDevices, &podresourcesv1.CDIDevice{Name: name})
		}
		return c
	}
	r.kubelet.set(
		pod("a", claimed("c", "gpu", cdi("k8s.gpu.nvidia.com/device=gpu-0"))),
		pod("b", claimed("c", "mig", cdi("k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-1-mig-1g6gb-14-0"))))
	wantHoldings(t, r.read(t), whole(gpuA, "a", "c", ""), whole(migA, "b", "c", ""))

	r.kubelet.set(pod("a", claimed("c", "gpu", cdi("k8s.gpu.nvidia.com/claim=gpu-0"))))
	r.fails(t, "pod team-a/a", `container "c"`, "claim team-a/gpu", "device must not be empty")
}

func TestDRAErrorsNameThePlace(t *testing.T) {
	r, kube := newDRARig(t, func(c *Config) { c.DRACheckpoint = "" })
	kube.set(slicesPath, sliceList(slice(1, mig("made-on-demand", ""), mig("parent", gpuB), board("nameless", ""))))
	for device, words := range map[string][]string{
		"gpu-9":          {"is in no ResourceSlice"},
		"made-on-demand": {"no uuid", "1g.6gb", gpuB, "on demand", "dra_checkpoint"},
		"parent":         {`uuid "` + gpuB + `"`, "want MIG-<uuid>"},
		"nameless":       {`uuid ""`, "want GPU-<uuid>"},
	} {
		r.kubelet.set(pod("a", claimed("c", "claim", draResource(device))))
		r.fails(t, append(words, "pod team-a/a", `container "c"`, "claim team-a/claim", "gpu.nvidia.com/"+node+"/"+device)...)
	}
	r.kubelet.set(pod("a", claimed("c", "", draResource("gpu-0"))))
	r.fails(t, "pod team-a/a", "claim team-a/", "name must not be empty")

	r.kubelet.set(pod("a", claimed("c", "claim", draResource("nameless"))))
	kube.set("/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/claim", refuse(http.StatusForbidden, "not for you"))
	r.fails(t, "look up claim team-a/claim of pod team-a/a", "not for you")
	kube.set(slicesPath, refuse(http.StatusForbidden, `{"message":"resourceslices is forbidden"}`))
	r.fails(t, "look up DRA devices", "resourceslices is forbidden")

	none := newRig(t)
	none.kubelet.set(pod("a", claimed("c", "claim", draResource("gpu-0"))))
	none.fails(t, "look up DRA devices", "api.url")
}

// A monitoring pod sees every device, and has none.
func TestDRAAdminAccess(t *testing.T) {
	r, kube := newDRARig(t)
	kube.set("/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/all", claim(result("gpu-0", true), result("gpu-1-mig-1g6gb-14-0", true)))
	kube.set("/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/both", claim(result("gpu-0", true), result("gpu-0", false)))
	r.kubelet.set(
		pod("both", claimed("c", "both", draResource("gpu-0"))),
		pod("exporter", claimed("c", "all", draResource("gpu-0"), draResource("gpu-1-mig-1g6gb-14-0"))),
		pod("train", claimed("c", "gpu", draResource("gpu-1-mig-1g6gb-14-0"))))
	for range 2 {
		wantHoldings(t, r.read(t), whole(gpuA, "both", "c", ""), whole(migA, "train", "c", ""))
		wantMetric(t, r.metrics.admin, 2)
	}
	wantMetric(t, r.metrics.questions.WithLabelValues(queryClaim, "ok"), 3)
}

// A MIG device made on demand is named by the driver's checkpoint alone.
func TestDRAMadeOnDemand(t *testing.T) {
	const (
		device = "gpu-1-mig-1g6gb-14-4"
		uid    = "dab5ab50-d59a-42a6-af16-cfd4628c0f7a"
		other  = "00000000-d59a-42a6-af16-cfd4628c0f7a"
		cdi    = "k8s.gpu.nvidia.com/claim=" + uid + "-" + device
	)
	path := filepath.Join(t.TempDir(), "checkpoint.json")
	r, kube := newDRARig(t, func(c *Config) { c.DRACheckpoint = path })
	kube.set(slicesPath, sliceList(slice(1, mig(device, ""))))
	given := draResource(device)
	given.CdiDevices = []*podresourcesv1.CDIDevice{{Name: cdi}}
	r.kubelet.set(pod("a", claimed("c", "claim", given)))

	r.fails(t, "pod team-a/a", device, "no uuid", path, "no such file")
	writeFile(t, path, "{")
	r.fails(t, "decode the driver's checkpoint", path)
	prepared := func(version, claim, uuid string) string {
		return fmt.Sprintf(`{"checksum":1,%q:{"checksum":2,"preparedClaims":{%q:{"checkpointState":"PrepareCompleted","preparedDevices":[{"devices":[
			{"gpu":{"info":{"uuid":%q},"device":{"CDIDeviceIDs":["k8s.gpu.nvidia.com/claim=%s-gpu-0"]}},"mig":null},
			{"gpu":null,"mig":{"concrete":{"parentMinor":1,"giId":3,"ciId":0,"migUUID":%q,"parentUUID":%q},
			 "device":{"PoolName":%q,"DeviceName":%q,"CDIDeviceIDs":["k8s.gpu.nvidia.com/claim=%s-%s"]}}}]}]}}}}`,
			version, claim, gpuA, claim, uuid, gpuB, node, device, claim, device)
	}
	writeFile(t, path, prepared("v2", other, migA))
	r.fails(t, "has no CDI device", cdi)
	writeFile(t, path, prepared("v2", uid, "none"))
	r.fails(t, `migUUID "none"`, path)
	for _, version := range []string{"v1", "v2"} {
		writeFile(t, path, prepared(version, uid, migA))
		wantHoldings(t, r.read(t), whole(migA, "a", "c", ""))
		r.kubelet.set()
		r.read(t)
		r.kubelet.set(pod("a", claimed("c", "claim", given)))
	}
}
