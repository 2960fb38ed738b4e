package meter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/gputally/gputally/internal/wire"
)

// Leaf is the identity of a leaf. It is the same leaf as long as all fields stay the
// same (R10, R14).
type Leaf struct {
	ID      string
	Slices  int
	Profile string
	GI, CI  int32 // -1: none
	MIGUUID string
}

// Hash names the identity in rows. It is never 0, which names the GPU itself.
func (l Leaf) Hash() uint64 {
	return hash64("leaf", l.ID, strconv.Itoa(l.Slices), l.Profile, strconv.Itoa(int(l.GI)),
		strconv.Itoa(int(l.CI)), l.MIGUUID)
}

// Owner holds the facts by which owners differ. The container is not one of them: all
// containers of a pod are one owner.
type Owner struct {
	Tenant    string `json:"tenant,omitempty"`
	Project   string `json:"project,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"`
	Job       string `json:"job,omitempty"`
	User      string `json:"user,omitempty"`
	Account   string `json:"account,omitempty"`
}

// OwnerOf takes the facts from a wire message.
func OwnerOf(o *wire.Owner) Owner {
	return Owner{
		Tenant: o.GetTenant(), Project: o.GetProject(), Namespace: o.GetNamespace(), Pod: o.GetPod(),
		UID: o.GetUid(), Job: o.GetJob(), User: o.GetUser(), Account: o.GetAccount(),
	}
}

// Named returns the owner with texts that can be stored, shown and billed (R15).
func (o Owner) Named() Owner {
	for _, fact := range [...]*string{&o.Tenant, &o.Project, &o.Namespace, &o.Pod, &o.UID, &o.Job, &o.User, &o.Account} {
		*fact = wire.Name(*fact)
	}
	return o
}

// ID is the pod's UID, else the job's id, else all facts as key-sorted JSON.
func (o Owner) ID() string {
	switch {
	case o.UID != "":
		return o.UID
	case o.Job != "":
		return o.Job
	}
	out, err := json.Marshal(struct { // in the order of the keys
		Account   string `json:"account,omitempty"`
		Namespace string `json:"namespace,omitempty"`
		Pod       string `json:"pod,omitempty"`
		Project   string `json:"project,omitempty"`
		Tenant    string `json:"tenant,omitempty"`
		User      string `json:"user,omitempty"`
	}{o.Account, o.Namespace, o.Pod, o.Project, o.Tenant, o.User}) // strings always marshal
	if err != nil {
		panic(err)
	}
	return string(out)
}

// Workload is the name that users know the work by: the pod's, else the job's.
func (o Owner) Workload() string {
	if o.Pod != "" {
		return o.Pod
	}
	return o.Job
}

// Hash names the facts in rows. It is never 0, which names the platform.
func (o Owner) Hash() uint64 {
	return hash64("owner", o.Tenant, o.Project, o.Namespace, o.Pod, o.UID, o.Job, o.User, o.Account)
}

func hash64(parts ...string) uint64 {
	h := sha256.New()
	var size [4]byte
	for _, p := range parts {
		binary.BigEndian.PutUint32(size[:], uint32(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	if v := binary.BigEndian.Uint64(h.Sum(nil)); v != 0 {
		return v
	}
	return 1
}

// Identities caches the hashes of leaves and owners, which recur in every slot. It is
// not safe for concurrent use.
type Identities struct {
	leaves map[Leaf]uint64
	owners map[Owner]ownerID
}

type ownerID struct {
	hash uint64
	id   string
}

// NewIdentities returns an empty cache.
func NewIdentities() *Identities {
	return &Identities{leaves: map[Leaf]uint64{}, owners: map[Owner]ownerID{}}
}

// Leaves visits all leaves in the cache, with their hashes.
func (d *Identities) Leaves(visit func(Leaf, uint64)) {
	for l, h := range d.leaves {
		visit(l, h)
	}
}

// Owners visits all owners in the cache, with their hashes.
func (d *Identities) Owners(visit func(Owner, uint64)) {
	for o, id := range d.owners {
		visit(o, id.hash)
	}
}

func (d *Identities) leaf(l Leaf) uint64 {
	h, ok := d.leaves[l]
	if !ok {
		h = l.Hash()
		d.leaves[l] = h
	}
	return h
}

// owner looks an owner up by its facts as received. Only the named form is cached:
// there may be more spellings of one name than fit in memory.
func (d *Identities) owner(o Owner) ownerID {
	id, ok := d.owners[o]
	if ok {
		return id
	}
	o = o.Named()
	id, ok = d.owners[o]
	if !ok {
		id = ownerID{hash: o.Hash(), id: o.ID()}
		d.owners[o] = id
	}
	return id
}
