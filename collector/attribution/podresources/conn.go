package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// answerMaxBytes is four times gRPC's default: a List names every pod, CPU and
// device of the node.
const answerMaxBytes = 16 << 20

// conn is the connection to the kubelet's socket, opened on first use and again after an error.
type conn struct {
	socket string
	client *grpc.ClientConn

	mu      sync.Mutex
	dialErr error // of the last dial; gRPC's own error has only its text
}

type kubelet = podresourcesv1.PodResourcesListerClient

// queryKubelet sends a query, and repeats it once if a connection that had worked is broken, as after a kubelet's
// restart.
func queryKubelet[T any](
	ctx context.Context, r *Reader, question string, call func(context.Context, kubelet) (T, error),
) (answer T, err error) {
	err = r.query(ctx, question, func(ctx context.Context) (err error) {
		once := func(k kubelet) (err error) { answer, err = call(ctx, k); return err }
		reused := r.kubelet.client != nil
		err = r.kubelet.once(once)
		if reused && status.Code(err) == codes.Unavailable && ctx.Err() == nil {
			err = r.kubelet.once(once)
		}
		if err != nil {
			return r.kubelet.explain(err)
		}
		return nil
	})
	return answer, err
}

func (c *conn) once(call func(kubelet) error) error {
	if c.client == nil {
		client, err := grpc.NewClient("passthrough:///kubelet",
			grpc.WithContextDialer(c.dial),
			grpc.WithAuthority("localhost"),
			grpc.WithTransportCredentials(insecure.NewCredentials()), // a Unix socket: protected by its permissions
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answerMaxBytes)),
			grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithUserAgent("gputally"))
		if err != nil {
			return fmt.Errorf("create gRPC client: %w", err)
		}
		c.client = client
	}
	err := call(podresourcesv1.NewPodResourcesListerClient(c.client))
	if code := status.Code(err); code != codes.OK && code != codes.Unimplemented {
		c.close() // a new connection has no back-off
	}
	return err
}

func (c *conn) dial(ctx context.Context, _ string) (net.Conn, error) {
	var d net.Dialer
	client, err := d.DialContext(ctx, "unix", c.socket)
	c.mu.Lock()
	c.dialErr = err
	c.mu.Unlock()
	return client, err
}

// explain adds the socket's path and a hint.
func (c *conn) explain(err error) error {
	c.mu.Lock()
	dialErr := c.dialErr
	c.mu.Unlock()
	if status.Code(err) != codes.Unavailable || dialErr == nil {
		return fmt.Errorf("at %s: %w", c.socket, err)
	}
	hint := "is the kubelet running?"
	switch {
	case errors.Is(dialErr, fs.ErrNotExist):
		hint = "is the kubelet running, and the socket's directory mounted?"
	case errors.Is(dialErr, fs.ErrPermission):
		hint = "the socket belongs to root: run the collector as root"
	case errors.Is(dialErr, syscall.ECONNREFUSED):
		hint = "nothing listens on it: the kubelet is starting, or the socket is mounted instead of its directory"
	}
	return fmt.Errorf("at %s: %w (%s)", c.socket, dialErr, hint)
}

func (c *conn) close() {
	if c.client != nil {
		_ = c.client.Close() // its only error is that it is already closed
		c.client = nil
	}
}
