package meter

import "testing"

func TestModelByName(t *testing.T) {
	for _, c := range []struct {
		name   string
		slices int
		idle   float64
		known  bool
	}{
		{"NVIDIA A100-SXM4-40GB", 7, 80, true},
		{"NVIDIA A100 80GB PCIe", 7, 80, true},
		{"A100-PCIE-40GB", 7, 80, true},
		{"NVIDIA A800-SXM4-80GB", 7, 80, true},
		{"NVIDIA H100 80GB HBM3", 7, 80, true},
		{"NVIDIA H100 NVL", 7, 80, true},
		{"NVIDIA H200", 7, 85, true},
		{"NVIDIA H20-3e", 7, 0, true},
		{"NVIDIA GH200 480GB", 7, 0, true},
		{"NVIDIA B200", 7, 0, true},
		{"NVIDIA GB200", 7, 0, true},
		{"NVIDIA B300 SXM6 AC", 7, 0, true},
		{"NVIDIA A30", 4, 0, true},
		{"NVIDIA RTX PRO 6000 Blackwell Server Edition", 4, 0, true},
		{"NVIDIA RTX PRO 5000 Blackwell", 2, 0, true},
		{"Tesla T4", 1, 0, true},
		{"Tesla V100-SXM2-32GB", 1, 0, true},
		{"NVIDIA L40S", 1, 0, true},
		{"NVIDIA A10", 1, 0, true},
		{"NVIDIA RTX 6000 Ada Generation", 1, 0, false},
		{"GRID A100-10C", 1, 0, false},
		{"NVIDIA A10-4Q", 1, 0, false},
		{"NVIDIA H1000", 1, 0, false},
		{"", 1, 0, false},
	} {
		m, known := ModelByName(c.name)
		if m.Slices != c.slices || m.IdleWatts != c.idle || known != c.known {
			t.Errorf("ModelByName(%q) = %d slices, %v W, known %v; want %d, %v, %v",
				c.name, m.Slices, m.IdleWatts, known, c.slices, c.idle, c.known)
		}
	}
}

func TestProfilesFitTheirBoard(t *testing.T) {
	for _, m := range models {
		full := m.model.Slices == 1
		for p, n := range m.model.Profiles {
			// A profile's name begins with its compute slices.
			if want := int(p[0] - '0'); n != want || p[1] != 'g' || n > m.model.Slices {
				t.Errorf("%s: profile %s has %d slices, the board %d", m.model.Name, p, n, m.model.Slices)
			}
			full = full || n == m.model.Slices
		}
		if !full {
			t.Errorf("%s: no profile covers the board's %d slices", m.model.Name, m.model.Slices)
		}
	}
}

// TestBoardsOfEachFamily: A100X to GB300 are MIG boards, the rest are whole.
func TestBoardsOfEachFamily(t *testing.T) {
	want := map[string]int{
		"A100": 7, "A100X": 7, "A800": 7, "GH200": 7, "H100": 7, "H800": 7, "H20": 7, "H200": 7, "B200": 7, "GB200": 7, "B300": 7, "GB300": 7,
		"A30": 4, "A30X": 4, "RTX PRO 6000": 4, "RTX PRO 5000": 2, "RTX PRO 4500": 2,
	}
	for _, m := range models {
		slices, mig := want[m.model.Name]
		if m.model.Slices != max(slices, 1) || mig != (len(m.model.Profiles) > 0) {
			t.Errorf("%s has %d slices and %d profiles", m.model.Name, m.model.Slices, len(m.model.Profiles))
		}
		if watts := map[string]float64{"A100": 80, "A800": 80, "H100": 80, "H800": 80, "H200": 85}[m.model.Name]; m.model.IdleWatts != watts {
			t.Errorf("%s idles at %v W, want %v", m.model.Name, m.model.IdleWatts, watts)
		}
	}
}

func TestProfileSlices(t *testing.T) {
	for _, c := range []struct {
		profile         string
		instance, board int
		ok              bool
	}{
		{"1g.5gb", 1, 7, true},
		{"1g.5gb+me", 1, 7, true},
		{"MIG 3g.20gb", 3, 7, true},
		{"3g.40gb", 3, 7, true}, // A100 and H100 agree
		{"2g.12gb+me", 2, 4, true},
		{"1g.24gb", 0, 0, false}, // boards of 7, 4 and 2
		{"2g.48gb-me", 0, 0, false},
		{"9g.1gb", 0, 0, false},
		{"", 0, 0, false},
	} {
		instance, board, ok := ProfileSlices(c.profile)
		if instance != c.instance || board != c.board || ok != c.ok {
			t.Errorf("ProfileSlices(%q) = %d, %d, %v; want %d, %d, %v", c.profile, instance, board, ok, c.instance, c.board, c.ok)
		}
	}
}
