package suite

import (
	"context"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	schedulerplugins "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// runOperator runs upstream's webhooks, and traincrew's operator until the context is done.
func runOperator(server *rest.Config) (context.Context, client.Client) {
	running, api := fwk.RunManager(server, false)
	runtime.Must(startOperator(running, server, "--kinds", "TrainJob"))
	return running, withoutPodGroups{api}
}

// withoutPodGroups finds an empty PodGroup: most specs only wait for one, and compare something else.
type withoutPodGroups struct {
	client.Client
}

func (api withoutPodGroups) Get(
	ctx context.Context, key client.ObjectKey, found client.Object, options ...client.GetOption,
) error {
	if _, is := found.(*schedulerplugins.PodGroup); is {
		return nil
	}
	return api.Client.Get(ctx, key, found, options...)
}
