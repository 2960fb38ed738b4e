package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gpuledger/gpuledger/billing/export"
)

type chargebackInput struct {
	Period string `query:"period" required:"true" pattern:"^(19[7-9][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month" example:"2026-10"`
}

// file is a body that is written as it is sent.
type file struct {
	Body func(huma.Context)
}

func (a *api) exportChargeback(ctx context.Context, in *chargebackInput) (*file, error) {
	month, err := a.deps.Invoices.List(ctx, in.Period)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.file("chargeback-"+in.Period+".csv", func(w http.ResponseWriter) error { return export.WriteChargeback(w, month) }), nil
}

// file streams what write writes. When it fails, the connection is cut, so that
// nobody takes a part for the whole.
func (a *api) file(name string, write func(w http.ResponseWriter) error) *file {
	return &file{func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		header := w.Header()
		header.Set("Content-Type", csvType+"; charset=utf-8; header=present")
		header.Set("Content-Disposition", `attachment; filename="`+name+`"`)
		err := http.NewResponseController(w).Flush()
		if err == nil {
			err = write(w)
		}
		if err != nil {
			a.deps.Log.WarnContext(ctx.Context(), "export was cut off", "file", name, "error", err)
			panic(http.ErrAbortHandler)
		}
	}}
}
