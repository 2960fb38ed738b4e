package rules

// deviceAlerts rest on what collectors show of each node's devices. Labels that
// come and go with owners, or with what the driver tells, are summed away: an
// alert must not start anew with them.
func deviceAlerts() []alert {
	return []alert{
		newAlert("GPUTallyHostEngineAway", critical, "5m",
			`min by (job, instance) (gputally_dcgm_connected) == 0`, text{
				summary:     "Collector {{ $labels.instance }} has no connection to DCGM's host engine",
				description: "The node's GPUs can't be read; their time becomes unobserved and no tenant is billed for it.",
				runbook: "On the node: does nv-hostengine run (systemctl status nvidia-dcgm, or the DCGM pod), and does it " +
					"listen where the collector's dcgm.address says? " +
					"The collector's log has DCGM's own error. After the repair it connects by itself; a driver that is being " +
					"replaced needs a silence.",
			}),
		newAlert("GPUTallyOwnersUnknown", critical, "5m",
			`min by (job, instance, Hostname) (gputally_attribution_ok) == 0`, text{
				summary: "Who holds the GPUs of {{ $labels.Hostname }} is not known",
				description: "The sources of owners fail, so the time of every device of the node becomes unobserved: no tenant " +
					"is billed for it, and it is never called free.",
				runbook: "gputally_attribution_polls_total{result=\"error\"} and the collector's log name the source: the " +
					"kubelet's pod-resources socket, Slurm's files or controller, or the file. " +
					"gputally_attribution_unresolved_total rising: a holding names a device that isn't there; compare it with " +
					"nvidia-smi -L.",
			}),
		newAlert("GPUTallyGPULost", warning, "2m",
			`max by (Hostname, UUID, gpu, modelName) (gputally_gpu_lost) == 1`, text{
				summary: "GPU {{ $labels.gpu }} of {{ $labels.Hostname }} is lost",
				description: "{{ $labels.modelName }} {{ $labels.UUID }} doesn't answer, or is missing where the node lists all " +
					"of its GPUs. Its time is unhealthy and the platform's.",
				runbook: "Look for XID 79 in the kernel log and at gputally_device_xids_total. Drain the node, then reset the " +
					"GPU or reboot; if it comes back lost, have the board changed. " +
					"A GPU that was taken out on purpose counts as lost for a day.",
			}),
		newAlert("GPUTallyGPUUnhealthy", warning, "1m",
			`max by (Hostname, UUID, gpu, modelName, GPU_I_ID, GPU_C_I_ID) (gputally_gpu_unhealthy or gputally_gpu_leaf_unhealthy) == 1`, text{
				summary: "GPU {{ $labels.gpu }} of {{ $labels.Hostname }} is flagged unhealthy{{ with $labels.GPU_I_ID }}, " +
					"instance {{ . }}{{ end }}",
				description: "{{ $labels.modelName }} {{ $labels.UUID }} had a fatal XID, or a row that could not be remapped. " +
					"What is held there without work costs no tenant anything.",
				runbook: "DCGM_FI_DEV_XID_ERRORS and the kernel log say which error it was; NVIDIA's list of XIDs says whether " +
					"a reset is enough. " +
					"The flag goes with a reset of the GPU, a reload of the driver, or a reboot.",
			}),
		newAlert("GPUTallyWorkWithoutOwner", info, "30m",
			`max by (Hostname, UUID, gpu, modelName, GPU_I_ID, GPU_C_I_ID) (DCGM_FI_PROF_SM_ACTIVE or DCGM_FI_PROF_GR_ENGINE_ACTIVE) > 0.05 `+
				`and on (Hostname, UUID, GPU_I_ID, GPU_C_I_ID) (gputally_gpu_leaf_holders == 0)`, text{
				summary: "GPU {{ $labels.gpu }} of {{ $labels.Hostname }} works, and nobody holds it",
				description: "{{ $labels.UUID }}{{ with $labels.GPU_I_ID }}, instance {{ . }},{{ end }} has been at work for " +
					"half an hour without an owner; its time is free and nobody pays for it.",
				runbook: "nvidia-smi on the node shows the processes. Most often they run beside the scheduler: containers with " +
					"NVIDIA_VISIBLE_DEVICES=all, or a login on the node. " +
					"If a scheduler did give the GPU out, a source of owners is missing in the collector's configuration.",
			}),
	}
}
