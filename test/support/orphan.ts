/**
 * Ends a test worker whose vitest is gone. Vitest ends its workers unless it was killed with -9; a waiting test would
 * then wait on, alone. SIGKILL, because vitest lets no worker exit on its own.
 */
function endMyself(): void {
  process.kill(process.pid, 'SIGKILL')
}

// A process that runs several files executes this for each of them.
const listening = Symbol.for('signalbox.test.orphan')
if (!Reflect.has(globalThis, listening)) process.once('disconnect', endMyself)
Reflect.set(globalThis, listening, true)
