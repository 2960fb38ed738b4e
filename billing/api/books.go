package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/decisions"
)

// inForce denotes the price book in force, in place of a hash.
const inForce = "in-force"

type listBooksInput struct {
	Paged
	Limit int `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of price books on a page"`
}

type booksBody struct {
	PriceBooks []bookBody `json:"price_books" nullable:"false" doc:"In the order of publication; the last is in force"`
	Next       string     `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
}

type bookBody struct {
	SHA256      string `json:"sha256" doc:"SHA-256 of the text; invoices contain it"`
	Name        string `json:"name"`
	Currency    string `json:"currency" example:"EUR"`
	TimeZone    string `json:"time_zone" doc:"Time zone of tenants for which the book has no other"`
	InForce     bool   `json:"in_force" doc:"New invoices are rated with this book"`
	Published   bool   `json:"published" doc:"false: the configured book, which is in force until one is published"`
	Offset      int64  `json:"offset,omitempty" doc:"Offset of the decision in the log"`
	PublishedBy string `json:"published_by,omitempty"`
	PublishedAt string `json:"published_at,omitempty" format:"date-time"`
	Unreadable  string `json:"unreadable,omitempty" doc:"Why the text can't be parsed any more; publish another book"`
	Text        string `json:"text,omitempty" doc:"The book's YAML; absent in lists"`
}

func (b *bookBody) key() []string { return []string{fmt.Sprintf("%020d", b.Offset)} }

func newBook(b *prices.Book) bookBody {
	return bookBody{SHA256: b.Hash, Name: b.Name, Currency: b.Currency, TimeZone: b.Zone.String()}
}

// published returns the published books, in order.
func (a *api) published(ctx context.Context) ([]decisions.Decided[decisions.PriceBook], error) {
	if err := a.deps.Decisions.Refresh(ctx); err != nil {
		return nil, err
	}
	var all []decisions.Decided[decisions.PriceBook]
	a.deps.Decisions.View(func(state *decisions.State) { all = state.Books() })
	return all, nil
}

// publishedBook describes a published book; if it can't be read any more, with the reason.
func (a *api) publishedBook(of *decisions.Decided[decisions.PriceBook]) bookBody {
	body := bookBody{SHA256: of.Body.SHA256, Name: of.Body.Name}
	if parsed, err := a.deps.Register.Parsed(&of.Body); err != nil {
		body.Unreadable = err.Error()
	} else {
		body = newBook(parsed)
	}
	body.Published, body.Offset, body.PublishedBy, body.PublishedAt = true, of.Offset, of.Who, rfc3339(of.Appended)
	return body
}

func (a *api) listBooks(ctx context.Context, in *listBooksInput) (*list[booksBody], error) {
	decided, err := a.published(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	last := int64(-1)
	if len(decided) > 0 {
		last = decided[len(decided)-1].Offset
	}
	page := pick(&in.Paged, in.Limit, decided, func(of *decisions.Decided[decisions.PriceBook]) []string {
		return (&bookBody{Offset: of.Offset}).key()
	})
	books := make([]bookBody, len(page.items))
	for i := range page.items {
		books[i] = a.publishedBook(&page.items[i])
		books[i].InForce = books[i].Offset == last
	}
	return &list[booksBody]{Link: page.link, Body: booksBody{PriceBooks: books, Next: page.next}}, nil
}

type showBookInput struct {
	SHA256 string `path:"sha256" pattern:"^([0-9a-f]{64}|in-force)$" doc:"SHA-256 of the book's text, or in-force" example:"in-force"`
}

func (a *api) showBook(ctx context.Context, in *showBookInput) (*answer[bookBody], error) {
	decided, err := a.published(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if in.SHA256 == inForce && len(decided) == 0 {
		book, err := a.deps.Register.Book(ctx)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		body := newBook(book)
		body.InForce, body.Text = true, book.Text
		return &answer[bookBody]{body}, nil
	}
	for i := len(decided) - 1; i >= 0; i-- {
		if in.SHA256 != inForce && decided[i].Body.SHA256 != in.SHA256 {
			continue
		}
		body := a.publishedBook(&decided[i])
		body.InForce, body.Text = i == len(decided)-1, decided[i].Body.Text
		return &answer[bookBody]{body}, nil
	}
	return nil, huma.Error404NotFound(fmt.Sprintf("no price book %s was published", in.SHA256))
}

type publishInput struct {
	Idempotent
	Body struct {
		Name string `json:"name,omitempty" minLength:"1" maxLength:"200" default:"prices.yaml" doc:"Name of the book in messages" example:"prices-2027.yaml"`
		Text string `json:"text" minLength:"1" maxLength:"1048576" doc:"The price book in YAML" example:"currency: EUR\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {H100: {gpu_hour: \"2.49\"}}\n"`
		Who  string `json:"who" minLength:"1" maxLength:"200" doc:"Name of the person who decides; stored with the decision" example:"finance@example.com"`
	}
}

type publishedOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the price book"`
	Replayed string `header:"Idempotency-Replayed" enum:"true" doc:"true: an earlier request with this Idempotency-Key made the decision"`
	Body     bookBody
}

func (a *api) publish(ctx context.Context, in *publishInput) (*publishedOutput, error) {
	if err := person(in.Body.Who); err != nil {
		return nil, err
	}
	if err := printable("body.name", in.Body.Name); err != nil {
		return nil, err
	}
	book, err := prices.Parse(in.Body.Name, []byte(in.Body.Text))
	if err != nil {
		return nil, invalid("body.text", nil, err.Error())
	}
	stood, err := a.publishedWith(ctx, in.of(in.Body.Who))
	if err == nil && stood != nil && stood.SHA256 != book.Hash {
		err = huma.Error409Conflict("the key was used for another request")
	}
	if err != nil {
		return nil, a.refused(ctx, decisions.KindPriceBook, in.Body.Who, book.Hash, err)
	}
	out := &publishedOutput{Status: http.StatusOK, Location: Prefix + "/price-books/" + book.Hash}
	if stood != nil {
		out.Replayed, out.Body = "true", *stood
		a.note(ctx, decisions.KindPriceBook, in.Body.Who, book.Hash, outcomeReplayed, "")
		return out, nil
	}
	fresh, err := a.deps.Register.Publish(ctx, book, in.Body.Who, in.of(in.Body.Who))
	if err != nil {
		return nil, a.refused(ctx, decisions.KindPriceBook, in.Body.Who, book.Hash, err)
	}
	outcome := outcomeAlready
	if fresh {
		out.Status, outcome = http.StatusCreated, outcomeDecided
	}
	a.note(ctx, decisions.KindPriceBook, in.Body.Who, book.Hash, outcome, "")
	shown, err := a.showBook(ctx, &showBookInput{SHA256: book.Hash})
	if err != nil {
		return nil, err
	}
	out.Body = shown.Body
	out.Body.Text = ""
	return out, nil
}

// publishedWith returns the book that an idempotency key published; nil: none.
func (a *api) publishedWith(ctx context.Context, key string) (*bookBody, error) {
	decided, err := a.published(ctx)
	if err != nil {
		return nil, err
	}
	for i := range decided {
		if decided[i].Key == key {
			body := a.publishedBook(&decided[i])
			body.InForce = i == len(decided)-1
			return &body, nil
		}
	}
	return nil, nil
}
