package slurm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/costtest"
)

func TestParseGres(t *testing.T) {
	for list, want := range map[string][]gresEntry{
		"":                                       nil,
		"(null)":                                 nil,
		"gpu:h100:2(IDX:4-5)":                    {{"gpu", "h100", 2, []uint32{4, 5}}},
		"gpu:3(IDX:0-1,7)":                       {{"gpu", "", 3, []uint32{0, 1, 7}}},
		"gpu:h100:0(IDX:)":                       {{"gpu", "h100", 0, nil}},
		"gpu:h100:0(IDX:N/A)":                    {{"gpu", "h100", 0, nil}},
		"gpu:h100:4(S:0-1)":                      {{"gpu", "h100", 4, nil}},
		"gpu":                                    {{"gpu", "", 1, nil}},
		"gpu:h100":                               {{"gpu", "h100", 1, nil}},
		"nic:mlx5:4K,shard:0":                    {{"nic", "", 1, nil}, {"shard", "", 0, nil}},
		"shard:a100:2(0/4,2/4)":                  {{"shard", "a100", 2, nil}},
		"gpu:1g.10gb:1(IDX:0),gpu:h100:1(IDX:7)": {{"gpu", "1g.10gb", 1, []uint32{0}}, {"gpu", "h100", 1, []uint32{7}}},
	} {
		got, err := parseGres(list)
		if err != nil {
			t.Errorf("parse %q: %v", list, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(gresEntry{})); diff != "" {
			t.Errorf("parse %q (-want +got):\n%s", list, diff)
		}
	}
}

func TestGPUPositions(t *testing.T) {
	for list, want := range map[string]string{
		"gpu:1g.10gb:1(IDX:5),gpu:h100:2(IDX:0-1),nic:1": "0 1 5",
		"gpu:h100:2(CNT:2)":      "gres gpu:h100:2: IDX has 0 positions",
		"gpu:h100:2(IDX:3)":      "gres gpu:h100:2: IDX has 1 position",
		"shard:2(IDX:2)":         "gres shard:2: shares of a GPU can't be read",
		"mps:100(IDX:0)":         "gres mps:100: shares of a GPU can't be read",
		"shard:0(IDX:N/A),gpu:0": "",
	} {
		entries, err := parseGres(list)
		if err != nil {
			t.Fatalf("parse %q: %v", list, err)
		}
		positions, err := gpuPositions(entries)
		got := join(positions)
		if err != nil {
			got = err.Error()
		}
		if (err != nil) != strings.HasPrefix(want, "gres") || !strings.HasPrefix(got, want) || (err == nil && got != want) {
			t.Errorf("positions of %q: got %q, want %q", list, got, want)
		}
	}
}

func TestParseGresRefuses(t *testing.T) {
	for list, want := range map[string]string{
		"gpu:h100:x":         `gres "gpu:h100:x": count "x": want a number`,
		"gpu:h100:-1":        `count "-1"`,
		"gpu:h100:1:2":       "want name:type:count",
		":1":                 "want name:type:count",
		"gpu:2(IDX:1-":       "no closing bracket",
		"gpu:2(IDX:b)":       `IDX: range "b"`,
		"gpu:2(IDX:1),":      "want name:type:count",
		"gpu:2(IDX:0-65536)": `IDX: range "0-65536"`,
	} {
		if got, err := parseGres(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: got %v, %v; want %s", list, got, err, want)
		}
	}
}

func FuzzParseGres(f *testing.F) {
	for _, seed := range []string{"gpu:1g.10gb:1(IDX:0),gpu:h100:1(IDX:7)", "gpu:2(S:0-1)", "shard:2(0/4)", "(", "gpu:99999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(list)), func() {
			entries, err := parseGres(list)
			if err != nil {
				return
			}
			var want uint64
			for _, e := range entries {
				if e.name == "gpu" {
					want += uint64(e.count)
				}
			}
			if positions, err := gpuPositions(entries); err == nil && uint64(len(positions)) > want {
				t.Errorf("%q: %d positions for a count of %d", list, len(positions), want)
			}
		})
	})
}

const gresConfText = `# one file for the cluster
AutoDetect=off
NodeName=n[1-4] Name=gpu Type=h100 \
    File=/dev/nvidia[5,4]   # in this order
NodeName=n1 name=gpu type=1g.10gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13
NodeName=n1 Name=gpu Type=1g.10gb File=/dev/nvidia-caps/nvidia-cap[21]
NodeName=n9 Name=gpu
Name=nic Count=4
NodeName=n[1-9] Name=shard Count=8
`

const migMinorsText = `config 1
monitor 2
gpu0/gi1/access 12
gpu0/gi1/ci0/access 13
gpu0/gi2/access 21
`

func u32(n uint32) *uint32 { return &n }

func TestGresConfInTheOrderOfTheNodesGres(t *testing.T) {
	conf, err := parseGresConf("gres.conf", gresConfText, "n1")
	if err != nil {
		t.Fatal(err)
	}
	minors, err := parseMIGMinors("mig-minors", migMinorsText)
	if err != nil {
		t.Fatal(err)
	}
	mig0 := attribution.Device{Minor: u32(0), GI: u32(1), CI: u32(0)}
	mig1 := attribution.Device{Minor: u32(0), GI: u32(2)}
	h5, h4 := attribution.Device{Minor: u32(5)}, attribution.Device{Minor: u32(4)}
	for gres, want := range map[string][]attribution.Device{
		"gpu:1g.10gb:2,gpu:h100:2(S:0-1),nic:4": {mig0, mig1, h5, h4},
		"gpu:h100:2,gpu:1g.10gb:2":              {h5, h4, mig0, mig1},
		"gpu:4":                                 {h5, h4, mig0, mig1},
		"gpu:1g.10gb:2,gpu:2":                   {mig0, mig1, h5, h4},
	} {
		entries, err := parseGres(gres)
		if err != nil {
			t.Fatal(err)
		}
		ordered, err := conf.order("gres.conf", entries)
		if err != nil {
			t.Errorf("order by %s: %v", gres, err)
		}
		var got []attribution.Device
		for _, d := range ordered {
			device, err := d.device(func() (map[uint32]attribution.Device, error) { return minors, nil })
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, device)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order by %s (-want +got):\n%s", gres, diff)
		}
	}
	for gres, want := range map[string]string{
		"gpu:1g.10gb:3,gpu:h100:2": "gres.conf: 2 devices of Type=1g.10gb",
		"gpu:1g.10gb:2":            "gres.conf:3: /dev/nvidia5 of Type=h100 is not in the node's Gres= of slurm.conf",
	} {
		entries, err := parseGres(gres)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conf.order("gres.conf", entries); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("order by %s: got %v, want %s", gres, err, want)
		}
	}
}

func TestParseGresConfRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                `g: no Name=gpu with File= or MultipleFiles= for node "n1"`,
		"NodeName=n2 Name=gpu File=/dev/nvidia0":          "only for others; set `node`",
		"Name=gpu Count=4":                                "g:1: Name=gpu without File=",
		"Name=gpu\\\n Flie=/dev/nvidia0":                  `g:1: "Flie=/dev/nvidia0": want Key=value`,
		"\n\nName=gpu File=/dev/nvidia[0-":                "g:3: key File: expand",
		"NodeName=n[ Name=gpu":                            "g:1: NodeName: expand",
		"Name=gpu Name=gpu":                               "the key is repeated on this line",
		"Name=gpu File=/dev/nvidia0 Count=2":              "count=2: File=/dev/nvidia0 names 1",
		"include /etc/other.conf":                         "include is not supported",
		"Name=gpu MultipleFiles=a,,b":                     "g:1: key MultipleFiles: expand",
		"AutoDetect=nvml\nName=gpu File=/dev/nvidia[1,0]": "AutoDetect=nvml with files",
		"AutoDetect=nvml\nName=gpu File=/dev/nvidia-caps/nvidia-cap1":                           "AutoDetect=nvml with files",
		"AutoDetect=nvml\nName=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1": "AutoDetect=nvml with files",
		"AutoDetect=nvml\nName=gpu File=/dev/nvidia0\nName=gpu Type=b":                          "AutoDetect=nvml with files",
	} {
		if got, err := parseGresConf("g", text, "n1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: got %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"AutoDetect=nvml", "AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-3]", "NodeName=n1 AutoDetect=off Name=gpu File=/dev/nvidia[3,0]"} {
		if _, err := parseGresConf("g", text, "n1"); err != nil {
			t.Errorf("parse %q: %v", text, err)
		}
	}
}

func TestDeviceRefuses(t *testing.T) {
	minors := func() (map[uint32]attribution.Device, error) { return parseMIGMinors("m", migMinorsText) }
	for files, want := range map[string]string{
		"/dev/nvidia":                         `file "/dev/nvidia": want /dev/nvidiaN`,
		"/dev/nvidia01":                       `file "/dev/nvidia01"`,
		"/dev/nvidiactl":                      `file "/dev/nvidiactl"`,
		"/dev/nvidia-cap9":                    "mig_minors has no instance with minor 9",
		"/dev/nvidia-capx":                    "want /dev/nvidia-caps/nvidia-capN",
		"/dev/nvidia1,/dev/nvidia-cap13":      "two boards, 1 and 0, at one position",
		"/dev/nvidia-cap13,/dev/nvidia-cap21": "two GPU instances, 1 and 2, at one position",
	} {
		d := confDevice{files: strings.Split(files, ",")}
		if got, err := d.device(minors); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("device of %s: got %s, %v; want %s", files, got, err, want)
		}
	}
	for _, line := range []string{"gpu0/gi1/access", "gpu0/access 1", "gpu0/gi1/ci1/x/access 2", "gpux/gi1/access 3", "gpu0/gi1/accessory 4"} {
		if got, err := parseMIGMinors("m", "config 1\n"+line); err == nil || !strings.HasPrefix(err.Error(), "m:2: ") {
			t.Errorf("parse %q: got %v, %v; want an error with the line", line, got, err)
		}
	}
}

func FuzzParseGresConf(f *testing.F) {
	f.Add(gresConfText, "n1")
	f.Add("AutoDetect=nvml\n\\\n", "n")
	f.Add("Name=gpu File=/dev/nvidia[0-9]\\", "é")
	f.Fuzz(func(t *testing.T, text, node string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(text)+len(node)), func() {
			conf, err := parseGresConf("g", text, node)
			if err == nil && len(conf.devices) == 0 && !conf.detects() {
				t.Errorf("%q for %q: nothing, and no error", text, node)
			}
		})
	})
}

func FuzzParseMIGMinors(f *testing.F) {
	f.Add(migMinorsText)
	f.Fuzz(func(t *testing.T, text string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(text)), func() {
			known, err := parseMIGMinors("m", text)
			for minor, d := range known {
				if err == nil && (d.Minor == nil || d.GI == nil) {
					t.Errorf("%q: minor %d is %s", text, minor, d)
				}
			}
		})
	})
}
