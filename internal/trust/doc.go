// Package trust checks, before a file is read, that only the users who may
// decide for this process could have written it.
//
// Data in: the path of a file or folder. Data out: nil, or an *Error that names
// the path, its owner or mode, and the command that mends it.
//
// Invariants: a file that decides something (configuration, price book, tenant
// mapping, a library that is loaded) belongs to root or to the process's user,
// and so does every folder above it, since whoever may write a folder may replace
// what is in it. Nobody else may write them, but for folders with the sticky bit,
// in which only a file's owner replaces it, and read-only mounts, such as a
// Kubernetes ConfigMap. A symbolic link is followed, and both ends are checked.
//
// What can go wrong: the file may change between the check and its use, but only
// by one of the users who were found to be trusted.
package trust
