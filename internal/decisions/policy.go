package decisions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Policy states what invoices, notes and the next policy require, from its offset
// until the next policy. The fold enforces it on every writer, whatever the writer's
// own configuration.
//
// From the first policy on, the fold compares names as Person does. Records before it
// keep the comparison by bytes under which they were accepted: a newer program doesn't
// revoke an invoice (R6).
type Policy struct {
	// Revision counts from 0, so that a policy, and an approval of one, is used once.
	Revision int `json:"revision"`
	// Approvals: an invoice, a note and the next policy require approval by somebody
	// other than the person who decides.
	Approvals bool `json:"approvals"`
	// Approvers are the names of those who may approve; empty: anybody else.
	Approvers []string `json:"approvers"`
	// Approval is the key of the approval that it depends on.
	Approval string `json:"approval,omitempty"`
}

const maxApprovers = 100

func (p *Policy) check() error {
	var errs []error
	if p.Revision < 0 {
		errs = append(errs, fmt.Errorf("revision is %d, want 0 or more", p.Revision))
	}
	switch n := len(p.Approvers); {
	case p.Approvers == nil:
		errs = append(errs, errors.New("approvers is null, want a list"))
	case n > maxApprovers:
		errs = append(errs, fmt.Errorf("approvers has %d names, want at most %d", n, maxApprovers))
	case n == 1 && p.Approvals:
		errs = append(errs,
			errors.New("approvers has one name, want two or more: if that person leaves, nothing could be approved any more"))
	default:
		errs = append(errs, persons(p.Approvers))
	}
	return join(errs...)
}

// persons returns an error unless the names are those of different persons.
func persons(names []string) error {
	seen := map[string]string{}
	for _, n := range names {
		if err := name("approvers", n); err != nil {
			return err
		}
		folded, err := Person(n)
		if err != nil {
			return err
		}
		if first, twice := seen[folded]; twice {
			return fmt.Errorf("approvers has %s and %s, which are the same person", shown(first), shown(n))
		}
		seen[folded] = n
	}
	return nil
}

// Content is the content that an approval of the policy names: the SHA-256 of the
// policy without its approval.
func (p Policy) Content() string {
	p.Approval = ""
	text, _ := json.Marshal(p) // strings and numbers always encode
	return Digest(text)
}

// policySubject begins the subject of every policy.
const policySubject = "policy-r"

// Subject is the subject that an approval of the policy names.
func (p Policy) Subject() string { return policySubject + strconv.Itoa(p.Revision) }

// Policy returns the policy in force; false: none yet, and the zero Policy.
func (s *State) Policy() (Decided[Policy], bool) {
	if len(s.policies) == 0 {
		return Decided[Policy]{Offset: -1}, false
	}
	p := s.policies[len(s.policies)-1]
	p.Body.Approvers = slices.Clone(p.Body.Approvers)
	return p, true
}

func (p *Policy) admit(s *State, at place) string {
	if refusal := p.refuse(s, at); refusal != "" {
		return refusal
	}
	s.policies = append(s.policies, entry(at, p))
	return ""
}

func (p *Policy) refuse(s *State, at place) string {
	last, _ := s.Policy()
	if p.Revision != len(s.policies) {
		return fmt.Sprintf("revision is %d, want the next one, %d", p.Revision, len(s.policies))
	}
	if _, err := Person(at.record.Who); err != nil {
		return err.Error()
	}
	if p.Approval != "" || last.Body.Approvals {
		return s.unapproved(at, p.Approval, p.Content(), p.Subject())
	}
	return ""
}

// MayApprove returns an error unless the policy in force lets a person approve.
func (s *State) MayApprove(who string) error {
	person, err := Person(who)
	if err != nil {
		return err
	}
	policy, _ := s.Policy()
	listed := slices.ContainsFunc(policy.Body.Approvers, func(a string) bool {
		folded, err := Person(a)
		return err == nil && folded == person
	})
	if len(policy.Body.Approvers) > 0 && !listed {
		return fmt.Errorf("%s may not approve: the policy at offset %d lists %s",
			shown(who), policy.Offset, strings.Join(policy.Body.Approvers, ", "))
	}
	return nil
}

// FindApproval returns the key of the first approval of a content and subject that a
// decision by who may depend on: it is another person's, and the policy in force lets
// that person approve.
func (s *State) FindApproval(who, content, subject string) (key string, err error) {
	var errs []error
	for _, a := range s.Approvals(subject) {
		if a.Body.Content != content {
			continue
		}
		err := errors.Join(another(a.Who, who), s.MayApprove(a.Who))
		if err == nil {
			return a.Key, nil
		}
		errs = append(errs, err)
	}
	command := "invoice approve"
	if strings.HasPrefix(subject, policySubject) {
		command = "policy approve"
	}
	err = fmt.Errorf("%s with the content %s needs an approval by somebody other than %s, given with gputally %s",
		subject, content, shown(who), command)
	if len(errs) > 0 {
		err = fmt.Errorf("%w; there is an approval, but it does not count: %w", err, errs[0])
	}
	return "", err
}

// unapproved checks the approval that a record names: it must be for this subject and
// this exact content, and by somebody else.
func (s *State) unapproved(at place, key, content, subject string) string {
	policy, folds := s.Policy()
	if key == "" {
		return fmt.Sprintf("%s names no approval: the policy at offset %d requires a second person", shown(subject),
			policy.Offset)
	}
	a, ok := s.approvals[key]
	switch {
	case !ok:
		return fmt.Sprintf("approval %q doesn't exist", key)
	case a.Body.Subject != subject:
		return fmt.Sprintf("approval %q is for %s, not for %q", key, shown(a.Body.Subject), subject)
	case a.Body.Content != content:
		return fmt.Sprintf("approval %q is for content %s, not for %s", key, a.Body.Content, content)
	case a.Who == at.record.Who:
		return fmt.Sprintf("approval %q is by %s, who also decides %s: a second person is required", key, a.Who,
			shown(subject))
	}
	if !folds {
		return ""
	}
	if err := errors.Join(another(a.Who, at.record.Who), s.MayApprove(a.Who)); err != nil {
		return fmt.Sprintf("approval %q does not count: %s", key, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return ""
}
