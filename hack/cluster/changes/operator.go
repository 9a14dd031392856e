package suite

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startOperator runs traincrew's operator on the API server of the suite until the context is done.
func startOperator(ctx context.Context, server *rest.Config, arguments ...string) error {
	definitions := envtest.CRDInstallOptions{Paths: []string{os.Getenv("TRAINCREW_DEFINITIONS")}}
	if _, err := envtest.InstallCRDs(server, definitions); err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "operator-")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(directory, "kubeconfig")
	content := clientcmdapi.NewConfig()
	content.Clusters["suite"] = &clientcmdapi.Cluster{
		Server:                   server.Host,
		CertificateAuthorityData: server.CAData,
	}
	content.AuthInfos["suite"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: server.CertData,
		ClientKeyData:         server.KeyData,
	}
	content.Contexts["suite"] = &clientcmdapi.Context{Cluster: "suite", AuthInfo: "suite"}
	content.CurrentContext = "suite"
	if err := clientcmd.WriteToFile(*content, kubeconfig); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, os.Getenv("TRAINCREW"), append([]string{
		"operator", "--kubeconfig", kubeconfig, "--no-leader-elect"}, arguments...)...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	go func() {
		_ = command.Wait()
		_ = os.RemoveAll(directory)
	}()
	return nil
}
