package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Names in the directory, and sizes in a segment; see FORMAT.md.
const (
	lockName        = "LOCK"
	segmentSuffix   = ".seg"
	segmentDigits   = 20
	segmentMagic    = "GPULSEG\x00"
	formatVersion   = 1
	headerBytes     = 32
	frameHeadBytes  = 24
	maxRecordBytes  = 64 << 20
	frameMagic      = "gLr\x01"
	frameLengthAt   = 4
	frameIDAt       = 8
	frameDataCRCAt  = 16
	frameHeadCRCAt  = 20
	headerVersionAt = 8
	headerFirstAt   = 12
	headerCRCAt     = 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segmentName contains the first id of the segment, so that names sort like ids.
func segmentName(first uint64) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, first, segmentSuffix)
}

func parseSegmentName(name string) (first uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(digits) != segmentDigits {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

func appendHeader(buf []byte, first uint64) []byte {
	at := len(buf)
	buf = append(buf, segmentMagic...)
	buf = binary.LittleEndian.AppendUint32(buf, formatVersion)
	buf = binary.LittleEndian.AppendUint64(buf, first)
	buf = binary.LittleEndian.AppendUint32(buf, crc32.Checksum(buf[at:], castagnoli))
	return append(buf, make([]byte, headerBytes-(len(buf)-at))...)
}

// errFormat means that a newer version wrote the segment.
var errFormat = errors.New("unknown spool format")

// checkHeader refuses an intact header of another version. A damaged header is no loss: the name has the first id,
// and the frames have checksums.
func checkHeader(segment []byte) error {
	if len(segment) < headerBytes || string(segment[:len(segmentMagic)]) != segmentMagic {
		return nil
	}
	crc := crc32.Checksum(segment[:headerCRCAt], castagnoli)
	version := binary.LittleEndian.Uint32(segment[headerVersionAt:])
	if crc == binary.LittleEndian.Uint32(segment[headerCRCAt:]) && version != formatVersion {
		return fmt.Errorf("%w: version %d, this program reads %d", errFormat, version, formatVersion)
	}
	return nil
}

// headCRC covers a frame's head and its segment's first id, so that bytes of another segment, in a recycled block or
// inside a record, are not taken for a frame.
func headCRC(head []byte, first uint64) uint32 {
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], first)
	return crc32.Update(crc32.Checksum(seed[:], castagnoli), castagnoli, head[:frameHeadCRCAt])
}

func appendFrame(buf []byte, first, id uint64, data []byte) []byte {
	at := len(buf)
	buf = append(buf, frameMagic...)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(data)))
	buf = binary.LittleEndian.AppendUint64(buf, id)
	buf = binary.LittleEndian.AppendUint32(buf, crc32.Checksum(data, castagnoli))
	buf = binary.LittleEndian.AppendUint32(buf, headCRC(buf[at:], first))
	return append(buf, data...)
}

type verdict int

const (
	frameOK      verdict = iota
	frameShort           // the bytes end before the frame does
	frameBadHead         // no frame, as far as can be determined
	frameBadData         // a frame whose data is damaged
)

// decodeFrame decodes the frame at the start of buf. sizeBytes is valid unless the head is bad; data aliases buf.
func decodeFrame(buf []byte, first uint64) (id uint64, data []byte, sizeBytes int, v verdict) {
	if len(buf) < frameHeadBytes {
		return 0, nil, 0, frameShort
	}
	length := binary.LittleEndian.Uint32(buf[frameLengthAt:])
	if string(buf[:len(frameMagic)]) != frameMagic || length > maxRecordBytes ||
		headCRC(buf, first) != binary.LittleEndian.Uint32(buf[frameHeadCRCAt:]) {
		return 0, nil, 0, frameBadHead
	}
	id = binary.LittleEndian.Uint64(buf[frameIDAt:])
	sizeBytes = frameHeadBytes + int(length)
	if len(buf) < sizeBytes {
		return id, nil, sizeBytes, frameShort
	}
	data = buf[frameHeadBytes:sizeBytes:sizeBytes]
	if crc32.Checksum(data, castagnoli) != binary.LittleEndian.Uint32(buf[frameDataCRCAt:]) {
		return id, nil, sizeBytes, frameBadData
	}
	return id, data, sizeBytes, frameOK
}

// resync returns where the next frame may begin after the damaged one at the start of buf, or len(buf).
func resync(buf []byte, first uint64) int {
	if _, _, size, v := decodeFrame(buf, first); v == frameBadData {
		return size
	}
	if i := bytes.Index(buf[1:], []byte(frameMagic)); i >= 0 {
		return 1 + i
	}
	return len(buf)
}

// scanSegment calls visit for each intact record of a whole segment, ids ascending, and returns where the last one
// ends.
func scanSegment(segment []byte, first uint64, visit func(id uint64, data []byte)) (end int) {
	end = min(headerBytes, len(segment))
	last := first - 1
	for pos := end; pos < len(segment); {
		id, data, size, v := decodeFrame(segment[pos:], first)
		if v != frameOK {
			pos += resync(segment[pos:], first)
			continue
		}
		pos += size
		if id > last {
			visit(id, data)
			last, end = id, pos
		}
	}
	return end
}
