package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Exception is an error returned by ClickHouse.
type Exception struct {
	Op      string // the failed operation
	Code    int32  // as in ClickHouse's ErrorCodes.cpp, such as 60
	Name    string // such as UNKNOWN_TABLE; "" when it isn't in the text
	Message string
	err     error
}

func (e *Exception) Error() string {
	return fmt.Sprintf("%s: ClickHouse code %d: %s", e.Op, e.Code, e.Message)
}

func (e *Exception) Unwrap() error { return e.err }

// Codes that callers check for.
const (
	CodeUnknownTable        = 60
	CodeUnknownDatabase     = 81
	CodeTimeout             = 159
	CodeMemoryLimit         = 241
	CodeNoSpace             = 243
	CodeConstraintViolation = 469
)

// transientCodes are temporary errors: load, memory, disk space, network, Keeper.
var transientCodes = []int32{
	CodeTimeout,
	198, // DNS_ERROR
	202, // TOO_MANY_SIMULTANEOUS_QUERIES
	203, // NO_FREE_CONNECTION
	209, // SOCKET_TIMEOUT
	210, // NETWORK_ERROR
	225, // NO_ZOOKEEPER
	236, // ABORTED
	CodeMemoryLimit,
	242, // TABLE_IS_READ_ONLY
	CodeNoSpace,
	252, // TOO_MANY_PARTS
	279, // ALL_CONNECTION_TRIES_FAILED
	285, // TOO_FEW_LIVE_REPLICAS
	286, // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
	319, // UNKNOWN_STATUS_OF_INSERT
	394, // QUERY_WAS_CANCELLED
	439, // CANNOT_SCHEDULE_TASK
	999, // KEEPER_EXCEPTION
}

// transientStatus are HTTP statuses of a proxy, or of a server that is starting.
var transientStatus = []int{429, 502, 503, 504}

// Retryable returns whether the same call may succeed later: true for network errors and ClickHouse's temporary
// errors, false for errors in the call or its rows (an unknown column, a violated CHECK), for a cancelled context and
// for errors of other origin.
func Retryable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if code, ok := Code(err); ok {
		return slices.Contains(transientCodes, code)
	}
	var status *clickhouse.HTTPError
	if errors.As(err, &status) {
		return slices.Contains(transientStatus, status.StatusCode)
	}
	var network net.Error
	if errors.As(err, &network) {
		_, file := network.(syscall.Errno) // Errno implements net.Error's methods, but a bare one is an error of a file
		return !file
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, clickhouse.ErrAcquireConnTimeout)
}

// Code returns ClickHouse's code of an error, if it has one, including errors of driver.Rows and driver.Row, which
// clickhouse-go returns unwrapped.
func Code(err error) (code int32, ok bool) {
	var ours *Exception
	if errors.As(err, &ours) {
		return ours.Code, true
	}
	var theirs *clickhouse.Exception
	if errors.As(err, &theirs) {
		return theirs.Code, true
	}
	return 0, false
}

func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var ex *clickhouse.Exception
	if errors.As(err, &ex) {
		return &Exception{Op: op, Code: ex.Code, Name: ex.CodeName, Message: ex.Message, err: err}
	}
	return fmt.Errorf("%s: %w", op, err)
}
