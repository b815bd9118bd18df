/**
 * A text message as a server sends it (RFC 6455, 5.2): final, unmasked, uncompressed. Through `ws` a message is two
 * writes, a buffer for its text and a list for the socket; plain ASCII, which nearly all of ours is, goes out as it
 * stands.
 *
 *     0x81 · length (7 bits, or 126 and 16 bits, or 127 and 64 bits) · the text
 */
export function writeTextFrame(socket: FrameSocket, text: string, byteLength: number): void {
  const header = headerOf(byteLength)
  if (byteLength === text.length) socket.write(header + text, 'latin1')
  else {
    const frame = Buffer.allocUnsafe(header.length + byteLength)
    frame.write(header, 0, 'latin1')
    frame.write(text, header.length)
    socket.write(frame)
  }
}

export interface FrameSocket {
  write(text: string, encoding: 'latin1'): boolean
  write(bytes: Uint8Array): boolean
}

/** Each character is a byte. */
function headerOf(length: number): string {
  if (length < 126) return String.fromCharCode(0x81, length)
  if (length < 65_536) return String.fromCharCode(0x81, 126, length >> 8, length & 255)
  // More than four bytes of length there never are: messages are bounded far below.
  const [a, b, c, d] = [length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255]
  return String.fromCharCode(0x81, 127, 0, 0, 0, 0, a!, b!, c!, d!)
}
