import type { Duplex } from 'node:stream'

/**
 * The end of a connection after its last answer (RFC 9112, section 9.6). The kernel resets a closed connection when bytes arrive
 * that the client had already sent. A reset can take the answer with it, before the client has read it. So the server
 * ends its half only, reads and drops what still comes, and closes when the client closes, or after a bounded time:
 *
 *     write the answer ──▶ end ──flushed──▶ read and drop ──client closes, or lingerMs──▶ close
 *
 * Everything that ends a connection with an answer calls `closeLingering`.
 */

/** How long a client may go on sending after its answer. */
export const lingerMs = 2_000
/** A pause of this process counts as one slice of a wait at most. */
const sliceMs = 200
/** The limit of bytes read. Then the server stops reading, and the client can still read the answer until the time is over. */
const maxDroppedBytes = 64 * 1_048_576
/** How long a client may take to let the answer into its connection. */
const flushMs = 90_000

const lingering = new WeakSet<Duplex>()

/** Ends a connection once everything that was written to it has been sent. Calling it again does nothing. */
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
 * Calls back after `lingerMs`, unless the returned function is called before. The wait consists of short slices. After a pause of
 * this process, timers fire before sockets are read. One slice may end then; the next one gives time to read what the client
 * sent during the pause. So the server never blames a client for its own delay.
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

/** For errors that the event `close` reports as well. */
export function ignore(): void {}
