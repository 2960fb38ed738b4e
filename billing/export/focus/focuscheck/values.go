package focuscheck

import (
	"maps"
	"slices"
)

// allowedValues are a column's (FOCUS 1.2, the columns' content constraints).
func allowedValues(column string) []string {
	switch column {
	case "CapacityReservationStatus":
		return []string{"Used", "Unused"}
	case "ChargeCategory":
		return []string{"Usage", "Purchase", "Tax", "Credit", "Adjustment"}
	case "ChargeFrequency":
		return []string{"One-Time", "Recurring", "Usage-Based"}
	case "PricingCategory":
		return []string{"Standard", "Dynamic", "Committed", "Other"}
	case "ServiceCategory":
		return slices.Sorted(maps.Keys(subcategories))
	case "ServiceSubcategory":
		return slices.Concat(slices.Collect(maps.Values(subcategories))...)
	}
	return nil
}

// subcategories are those of each service category; each has an "Other".
var subcategories = func() map[string][]string {
	all := map[string][]string{
		"AI and Machine Learning":   {"AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing"},
		"Analytics":                 {"Analytics Platforms", "Business Intelligence", "Data Processing", "Search", "Streaming Analytics"},
		"Business Applications":     {"Productivity and Collaboration"},
		"Compute":                   {"Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines"},
		"Databases":                 {"Caching", "Data Warehouses", "Ledger Databases", "NoSQL Databases", "Relational Databases", "Time Series Databases"},
		"Developer Tools":           {"Developer Platforms", "Continuous Integration and Deployment", "Development Environments", "Source Code Management", "Quality Assurance"},
		"Identity":                  {"Identity and Access Management"},
		"Integration":               {"API Management", "Messaging", "Workflow Orchestration"},
		"Internet of Things":        {"IoT Analytics", "IoT Platforms"},
		"Management and Governance": {"Architecture", "Compliance", "Cost Management", "Data Governance", "Disaster Recovery", "Endpoint Management", "Observability", "Support"},
		"Media":                     {"Content Creation", "Gaming", "Media Streaming", "Mixed Reality"},
		"Migration":                 {"Data Migration", "Resource Migration"},
		"Mobile":                    nil,
		"Multicloud":                {"Multicloud Integration"},
		"Networking":                {"Application Networking", "Content Delivery", "Network Connectivity", "Network Infrastructure", "Network Routing", "Network Security"},
		"Security":                  {"Secret Management", "Security Posture Management", "Threat Detection and Response"},
		"Storage":                   {"Backup Storage", "Block Storage", "File Storage", "Object Storage", "Storage Platforms"},
		"Web":                       {"Application Platforms"},
		"Other":                     nil,
	}
	for category := range all {
		all[category] = append(all[category], "Other ("+category+")")
	}
	return all
}()

// skuProperties are the FOCUS-defined keys of SkuPriceDetails: true, their
// values are numbers; false, strings.
var skuProperties = map[string]bool{
	"CoreCount": true, "DiskMaxIops": true, "DiskSpace": true, "DiskType": false, "GpuCount": true, "InstanceSeries": false,
	"InstanceType": false, "MemorySize": true, "NetworkMaxIops": true, "NetworkMaxThroughput": true, "OperatingSystem": false,
	"Redundancy": false, "StorageClass": false,
}
