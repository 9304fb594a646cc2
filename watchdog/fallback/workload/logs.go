package workload

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// maxLogBytes is most of a container's log that is read.
const maxLogBytes = 64 << 10

// tail puts the last lines of a container that didn't get well into this machine's log.
// They go nowhere else: an application may well write a secret there, and errors travel
// to other homes and to people's phones.
func (w *Workloads) tail(ctx context.Context, s *engine, c container.InspectResponse, item string) {
	var out bytes.Buffer
	err := call(context.WithoutCancel(ctx), 3*time.Second, func(ctx context.Context) error {
		r, err := s.client.ContainerLogs(ctx, c.ID, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "5"})
		if err != nil {
			return err
		}
		defer r.Close()
		body := io.LimitReader(r, maxLogBytes)
		if c.Config.Tty {
			_, err = io.Copy(&out, body)
		} else {
			_, err = stdcopy.StdCopy(&out, &out, body)
		}
		return err
	})
	if out.Len() == 0 {
		w.log.Debug("the container's log says nothing", "item", item, "error", err)
		return
	}
	w.log.Warn("the last lines of a container that is not well", "item", item, "container", name(c), "lines", printable(out.String()))
}
