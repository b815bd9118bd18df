/**
 * Writes lines to a stream without ever waiting for it and without ever keeping much. Lines of one turn go out
 * together. What the stream has not taken yet counts against a limit; above it lines are dropped and counted, and once
 * there is room again a line says how many.
 */
export interface LogWriter {
  write(line: string): void
  /** Hands over what is there now, not at the end of the turn. */
  push(): void
  /** How many lines were dropped. */
  readonly droppedCount: number
  /** Waits until the stream has taken everything, at most so long. */
  flush(timeoutMs: number): Promise<void>
  /** Writes nothing more. */
  close(): void
}

/** The part of a writable stream that is used. */
export interface LogDestination {
  write(text: string, taken: (error?: Error | null) => void): unknown
  on?(event: 'error', listener: (error: Error) => void): unknown
  off?(event: 'error', listener: (error: Error) => void): unknown
}

export interface LogWriterOptions {
  readonly destination: LogDestination
  readonly maxBufferBytes: number
  /** The line that says that so many were dropped. */
  readonly droppedLine: (count: number) => string
}

export function createLogWriter({ destination, maxBufferBytes, droppedLine }: LogWriterOptions): LogWriter {
  let lines = ''
  let lineBytes = 0
  let lineCount = 0
  /** Handed to the stream and not taken yet. */
  let outBytes = 0
  let droppedCount = 0
  let untoldCount = 0
  let scheduled: NodeJS.Immediate | undefined
  let isClosed = false
  const waiting = new Set<() => void>()
  // A reader that has gone is no reason to end the process, which is what an unheard error does.
  const ignore = () => {}
  let isListening = false

  function drop(count: number): void {
    droppedCount += count
    untoldCount += count
  }

  function keep(line: string): boolean {
    const bytes = Buffer.byteLength(line)
    if (isClosed || outBytes + lineBytes + bytes > maxBufferBytes) return false
    lines += line
    lineBytes += bytes
    lineCount++
    scheduled ??= setImmediate(push)
    return true
  }

  function push(): void {
    clearImmediate(scheduled)
    scheduled = undefined
    if (lines === '') return
    const [text, bytes, count] = [lines, lineBytes, lineCount]
    lines = ''
    lineBytes = 0
    lineCount = 0
    outBytes += bytes
    if (!isListening) destination.on?.('error', ignore)
    isListening = true
    let isTaken = false
    const taken = (error?: Error | null) => {
      if (isTaken) return
      isTaken = true
      outBytes -= bytes
      if (error) drop(count)
      else tellDropped()
      if (outBytes === 0 && lines === '') for (const done of waiting) done()
    }
    try {
      destination.write(text, taken)
    } catch (error) {
      taken(error as Error)
    }
  }

  function tellDropped(): void {
    if (untoldCount === 0) return
    const count = untoldCount
    // The line about it does not come before there is room for it.
    if (keep(droppedLine(count))) untoldCount -= count
  }

  return {
    write(line) {
      if (!keep(line)) drop(1)
    },
    push,
    get droppedCount() {
      return droppedCount
    },
    async flush(timeoutMs) {
      push()
      if (outBytes === 0) return
      await new Promise<void>((resolve) => {
        const done = () => {
          clearTimeout(timer)
          waiting.delete(done)
          resolve()
        }
        const timer = setTimeout(done, timeoutMs)
        waiting.add(done)
      })
    },
    close() {
      isClosed = true
      push()
      // What is on its way may still fail, so somebody goes on listening until it has been taken.
      if (outBytes === 0 && isListening) destination.off?.('error', ignore)
    },
  }
}
