package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/internal/httpd/guard"
)

type chargebackInput struct {
	Period string `query:"period" required:"true" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month" example:"2026-10"`
}

func (a *api) exportChargeback(ctx context.Context, in *chargebackInput) (*file, error) {
	return a.file("chargeback-"+in.Period+".csv", func(w io.Writer) error {
		month, err := a.deps.Register.List(ctx, in.Period)
		if err != nil {
			return err
		}
		return export.WriteChargeback(w, month)
	}), nil
}

type focusInput struct {
	Period    string `query:"period" required:"true" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Billing period: a calendar month" example:"2026-10"`
	Version   string `query:"version" enum:"1.2,1.4" default:"1.2" doc:"Version of FOCUS"`
	Validator bool   `query:"validator" doc:"Write a file that the published validator of 1.2 accepts: ASCII only, and with the columns that it expects"`
}

func (a *api) exportFocus(ctx context.Context, in *focusInput) (*file, error) {
	options := focus.Options{Config: a.deps.Focus, Version: in.Version, Validator: in.Validator}
	if err := options.Validate(); err != nil {
		return nil, invalid("query.validator", in.Validator, err.Error())
	}
	return a.file("focus-"+in.Version+"-"+in.Period+".csv", func(w io.Writer) error {
		_, err := focus.Write(w, options, focus.Bills(ctx, a.deps.Register, in.Period))
		return err
	}), nil
}

// file is a body that is produced while it is sent.
type file struct {
	Body func(huma.Context)
}

// file streams the output of write. Errors before its first byte become a problem; later the connection is aborted,
// so that a part isn't taken for the whole.
func (a *api) file(name string, write func(w io.Writer) error) *file {
	return &file{func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		out := &download{w: w, name: name}
		err := write(out)
		switch {
		case err == nil && !out.begun:
			_, err = out.Write(nil)
		case err != nil && !out.begun:
			writeError(w, a.problem(ctx.Context(), err))
			return
		}
		if err != nil {
			a.deps.Log.WarnContext(ctx.Context(), "export was aborted", "file", name, "error", err)
			panic(http.ErrAbortHandler)
		}
	}}
}

// download is an answer that becomes a file at its first byte.
type download struct {
	w     http.ResponseWriter
	name  string
	begun bool
}

func (d *download) Write(p []byte) (int, error) {
	if !d.begun {
		d.begun = true
		header := d.w.Header()
		header.Set("Content-Type", csvType+"; charset=utf-8; header=present")
		header.Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
		if err := http.NewResponseController(d.w).Flush(); err != nil {
			return 0, err
		}
	}
	return d.w.Write(p)
}

// writeError answers with a problem without huma.
func writeError(w http.ResponseWriter, problem error) {
	var withHeaders huma.HeadersError
	if errors.As(problem, &withHeaders) {
		maps.Copy(w.Header(), withHeaders.GetHeaders())
	}
	var status huma.StatusError
	if !errors.As(problem, &status) {
		status = huma.Error500InternalServerError("the request failed; the service's log says why")
	}
	body, err := json.Marshal(status)
	if err != nil {
		body = nil // encoding a problem of texts can't fail
	}
	w.Header().Set("Content-Type", guard.ProblemType)
	w.WriteHeader(status.GetStatus())
	_, _ = w.Write(append(body, '\n')) // the client has disconnected
}
