package dcgm

import (
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestDefaultConfigIsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigFromYAML(t *testing.T) {
	cfg := DefaultConfig()
	text := "mode: embedded\naddress: unix:///run/dcgm.sock\nlibrary: /opt/libdcgm.so.4\ninterval: 1s\nprofiling: false\nfields: [DCGM_FI_DEV_FAN_SPEED, \"110\"]\nkeep: 5m\n"
	if err := yaml.Unmarshal([]byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	want := Config{
		Mode: Embedded, Address: "unix:///run/dcgm.sock", Library: "/opt/libdcgm.so.4", Interval: time.Second,
		Fields: []string{"DCGM_FI_DEV_FAN_SPEED", "110"}, Keep: 5 * time.Minute,
	}
	diff(t, "configuration", want, cfg)
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`mode "remote": must be "standalone" or "embedded"`: func(c *Config) { c.Mode = "remote" },
		`address "localhost": must be host:port`:            func(c *Config) { c.Address = "localhost" },
		`address "h:0": port "0"`:                           func(c *Config) { c.Address = "h:0" },
		`address "h:65536": port "65536"`:                   func(c *Config) { c.Address = "h:65536" },
		`address "http://h": scheme "http"`:                 func(c *Config) { c.Address = "http://h" },
		`address "unix://": nothing follows unix://`:        func(c *Config) { c.Address = "unix://" },
		`library "libdcgm.so.4": must be an absolute path`:  func(c *Config) { c.Library = "libdcgm.so.4" },
		`interval 50ms: must be 100ms to 1m0s`:              func(c *Config) { c.Interval = 50 * time.Millisecond },
		`keep 1s: must be two intervals (4s) to 24h0m0s`:    func(c *Config) { c.Keep = time.Second },
		`fields[1] "DCGM_FI_NO": is neither the id nor`:     func(c *Config) { c.Fields = []string{"110", "DCGM_FI_NO"} },
		`fields[0] "70000": a field id must be 1 to 65535`:  func(c *Config) { c.Fields = []string{"70000"} },
		`fields[0] "0": a field id must be 1 to 65535`:      func(c *Config) { c.Fields = []string{"0"} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		wantError(t, cfg.Validate(), want)
	}
}

func TestExtraFieldsByEveryName(t *testing.T) {
	ids, err := extraFields([]string{"DCGM_FI_DEV_FAN_SPEED", "191", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_GPU_UTIL", "206", "206"})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "ids", []uint16{191, 206}, ids)
}

// TestFieldsGoByTheNameTheyAreAskedFor: the id is known to DCGM by several.
func TestFieldsGoByTheNameTheyAreAskedFor(t *testing.T) {
	c := Config{Fields: []string{"206", "DCGM_FI_DEV_FAN_SPEED"}}
	diff(t, "names", []string{"DCGM_FI_DEV_FAN_SPEED", "", ""}, []string{c.FieldName(191), c.FieldName(206), c.FieldName(155)})
}

func TestFieldGroupsFitDCGM(t *testing.T) {
	if n := len(boardFields) + len(profilingFields) + maxExtra; n > 128 {
		t.Errorf("%d fields at a time, DCGM takes 128", n)
	}
}
