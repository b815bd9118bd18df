import type { Duplex } from 'node:stream'

/**
 * The end of a connection after its last answer (RFC 9112, section 9.6). The kernel resets a closed connection when
 * bytes arrive that the client had already sent. A reset can take the answer with it, before the client has read it. So
 * the server ends only its half, reads and drops further bytes, and closes when the client closes, or after a bounded
 * time:
 *
 *     write the answer ──▶ end ──flushed──▶ read and drop ──client closes, or lingerMs──▶ close
 *
 * Everything that ends a connection with an answer calls `closeLingering`.
 */

/** How long a client may continue to send after its answer. */
export const lingerMs = 2_000
/** A pause of this process counts as one slice of a wait at most. */
const sliceMs = 200
/**
 * The limit of bytes read. Then the server stops reading, and the client can still read the answer until the time is
 * over.
 */
const maxDroppedBytes = 64 * 1_048_576
/** How long the server waits until the answer is written to the connection. */
const flushMs = 90_000

const lingering = new WeakSet<Duplex>()

/** Ends a connection after all written bytes are sent. A second call does nothing. */
export function closeLingering(socket: Duplex): void {
  if (lingering.has(socket) || socket.destroyed) return
  lingering.add(socket)
  let droppedBytes = 0
  socket.removeAllListeners('data')
  socket.on('data', (chunk: Buffer) => {
    droppedBytes += chunk.length
    if (droppedBytes > maxDroppedBytes) socket.pause()
  })
  // `close` follows. An error without a listener would end the process.
  socket.on('error', ignore)
  socket.resume()
  const cut = () => socket.destroy()
  const flushing = setTimeout(cut, flushMs).unref()
  let stopWaiting = () => clearTimeout(flushing)
  socket.once('close', () => stopWaiting())
  socket.end(() => {
    stopWaiting()
    if (!socket.destroyed) stopWaiting = afterLinger(cut)
  })
}

/**
 * Calls back after `lingerMs`, unless the returned function is called before. The wait consists of short slices,
 * because after a pause of this process timers fire before sockets are read. One slice may end then; the next one gives
 * time to read the bytes that arrived during the pause. So a client does not lose time because the server paused.
 */
export function afterLinger(callback: () => void): () => void {
  let slicesLeft = lingerMs / sliceMs
  const timer = setInterval(() => {
    if (--slicesLeft > 0) return
    clearInterval(timer)
    callback()
  }, sliceMs).unref()
  return () => clearInterval(timer)
}

/** Whether the last answer of a connection was written, and its client has not closed yet. */
export function isLingering(socket: Duplex): boolean {
  return lingering.has(socket) && !socket.destroyed
}

/** A listener for errors that the event `close` reports too. */
export function ignore(): void {}
