package decisions

import (
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/costtest"
)

// TestM3OneNameOnePerson: spellings that a reader takes for one name are one
// person's; what looks like another's name is none.
func TestM3OneNameOnePerson(t *testing.T) {
	for _, same := range [][]string{
		{"mallory", "Mallory", "mallory ", " MALLORY", "ｍａｌｌｏｒｙ"},
		{"straße", "STRASSE"},
		{"José", "Jose\u0301"},
		{"anna lee", "anna   Lee"},
		{"山田 tarō", "山田  TARŌ"},
		{"Иван", "иван"},
	} {
		for _, spelling := range same {
			if err := another(same[0], spelling); err == nil || !strings.Contains(err.Error(), "the same person") {
				t.Errorf("%q and %q: %v, want the same person", same[0], spelling, err)
			}
		}
	}
	for _, two := range [][2]string{{"alice", "bob"}, {"alice", "alice2"}, {"Иван", "Ivan"}} {
		if err := another(two[0], two[1]); err != nil {
			t.Errorf("%q and %q: %v, want two persons", two[0], two[1], err)
		}
	}
	for _, name := range []string{
		"", " ", "\u0430lice", "alic\u0435", "αlice", "alice\u200b", "al\u00adice", "\u202eecila", "alice\n", "a\x00", "a\xff", "\u3164", "alice\ufe0f", "\u2800",
		"ali\u034fce",
	} {
		if got, err := Person(name); err == nil {
			t.Errorf("%q: got the person %q, want a refusal", name, got)
		}
	}
}

// TestScriptsThatGoTogether: as names in East Asia are written, and no others.
func TestScriptsThatGoTogether(t *testing.T) {
	for name, good := range map[string]bool{
		"山田 tarō": true, "やまだ タロウ": true, "김 lee 金": true, "ㄅㄆ 王 wang": true, "김 やまだ": false, "ㄅㄆ 김": false, "Иван 王": false,
		"김 иван": false, "ㄅㄆ タロウ": false,
	} {
		if _, err := Person(name); (err == nil) != good {
			t.Errorf("%q: %v, want it taken: %t", name, err, good)
		}
	}
}

// TestM12WritersRefuseWhatTheFoldMustTake: old logs may have them.
func TestM12WritersRefuseWhatTheFoldMustTake(t *testing.T) {
	for _, name := range []string{"alice\ufffc", "alice\U0001d159"} {
		if _, err := Person(name); err != nil {
			t.Errorf("%q: the fold refuses it: %v", name, err)
		}
		if _, _, err := (&Log{opt: Options{Clock: clock.Real()}}).record(KindAudit, "", "", name, Audit{}); err == nil {
			t.Errorf("%q: a writer takes it", name)
		}
	}
}

// FuzzPerson: folding is stable, so that two processes, or two versions of a
// name in one, never disagree.
func FuzzPerson(f *testing.F) {
	for _, name := range []string{"Mallory ", "straße", "ᾳ", "ŉ", "İ", "ǰ", "ﬁ", "ꭰ"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		var once string
		var err error
		costtest.Within(t, costtest.Time, 1<<20+64*uint64(len(name)), func() { once, err = Person(name) })
		if err != nil {
			return
		}
		if again, err := Person(once); err != nil || again != once {
			t.Errorf("%q is %q, and that is %q, %v", name, once, again, err)
		}
	})
}
