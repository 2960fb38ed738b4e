// Package trust checks, before a file is read, that only users who may decide for this process could have written it.
//
// Data in: the path of a file or directory. Data out: nil, or an *Error with the path, its owner or mode, and the
// command that fixes it.
//
// Invariants: a file that affects decisions (configuration, price book, tenant mapping, a library that is loaded)
// belongs to root or to the process's user, and so does every directory above it, since a user who can write a
// directory can replace its files. Others may not write them, except in directories with the sticky bit, in which
// only a file's owner can replace it, and on read-only mounts, such as a Kubernetes ConfigMap. Symbolic links are
// followed, and both ends are checked.
//
// Limitation: the file may change between the check and its use, but only by one of the trusted users.
package trust
