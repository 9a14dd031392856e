package suite

import (
	"context"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
)

// startController runs traincrew's operator until the context is done.
func startController(
	ctx context.Context, _ kubernetes.Interface, _ clientset.Interface, gangs *gangSchedulerConfig,
) {
	scheduling := "none"
	if gangs != nil && gangs.volcanoClient != nil {
		scheduling = "volcano"
	} else if gangs != nil && gangs.schedClient != nil {
		scheduling = "coscheduling"
	}
	runtime.Must(startOperator(
		ctx, restConfig, "--kinds", "MPIJob", "--gang-scheduling", scheduling,
	))
}

func withoutSelectors(
	statuses map[kubeflow.MPIReplicaType]*kubeflow.ReplicaStatus,
) map[kubeflow.MPIReplicaType]*kubeflow.ReplicaStatus {
	for _, status := range statuses {
		status.Selector = ""
	}
	return statuses
}
