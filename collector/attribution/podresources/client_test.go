package podresources

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func getPods(t *testing.T, c *client) error {
	t.Helper()
	return c.get(t.Context(), "/pods", nil, "PodList", &struct{}{})
}

func TestClientCertificates(t *testing.T) {
	kube := newFakeKube(t)
	kube.set("/pods", podList())
	cfg := kube.endpoint()
	cfg.CAFile = ""
	if err := getPods(t, newKubeletClient(cfg, node)); err == nil {
		t.Error("unknown CA: no error")
	} else {
		wantWords(t, err, "query kubelet", "certificate", "insecure_skip_verify")
	}
	cfg.InsecureSkipVerify = true
	if err := getPods(t, newKubeletClient(cfg, node)); err != nil {
		t.Errorf("insecure: %v", err)
	}

	// A CA that is replaced in its file is taken at the next request.
	cfg = kube.endpoint()
	good, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	c := newKubeletClient(cfg, node)
	for _, step := range []struct{ ca, want string }{
		{string(good), ""},
		{"rubbish", "holds no PEM certificate"},
		{string(good), ""},
	} {
		writeFile(t, cfg.CAFile, step.ca)
		err := getPods(t, c)
		if (err == nil) != (step.want == "") || (err != nil && !strings.Contains(err.Error(), step.want)) {
			t.Errorf("CA %.10q: got %v, want %q", step.ca, err, step.want)
		}
	}
	c.cfg.CAFile = filepath.Join(t.TempDir(), "none")
	wantWords(t, getPods(t, c), "read CA", c.cfg.CAFile)
}

func TestClientToken(t *testing.T) {
	kube := newFakeKube(t)
	kube.set("/pods", podList())
	c := newKubeletClient(kube.endpoint(), node)
	writeFile(t, kube.token, " \n")
	wantWords(t, getPods(t, c), "read token", kube.token, "is empty")
	for mode, words := range map[os.FileMode][]string{0o666: {"other users can write it"}, 0o644: {"is empty"}} {
		if err := os.Chmod(kube.token, mode); err != nil {
			t.Fatal(err)
		}
		wantWords(t, getPods(t, c), append(words, kube.token)...)
	}
	c.cfg.TokenFile = filepath.Join(t.TempDir(), "none")
	wantWords(t, getPods(t, c), "read token", c.cfg.TokenFile)
	c.cfg.TokenFile = ""
	if err := getPods(t, c); err != nil {
		t.Errorf("no token: %v", err)
	}
	if diff := cmp.Diff([]string{""}, kube.auth); diff != "" {
		t.Errorf("authorization (-want +got):\n%s", diff)
	}
}

// The kubelet's read-only port has no TLS: the token stays here.
func TestClientKeepsTokenFromPlainHTTP(t *testing.T) {
	kube := newFakeKube(t)
	req, err := http.NewRequest(http.MethodGet, "http://node:10255/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := newKubeletClient(kube.endpoint(), node).authorize(req); err != nil {
		t.Fatal(err)
	}
	if got := req.Header.Get("Authorization"); got != "" {
		t.Errorf("authorization over http: got %q, want none", got)
	}
}
