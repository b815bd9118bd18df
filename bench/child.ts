/** One measurement of one contestant, in a process that has seen nothing else. Started by measure.ts. */
import type { Measurement } from './measure.ts'
import { findModule } from './modules.ts'

const { module, trial, contestant, conditions } = JSON.parse(process.argv[2]!) as Measurement

try {
  const found = (await findModule(module))?.trials.find(({ name }) => name === trial)?.contestants[contestant]
  if (!found) throw new Error(`There is no contestant "${contestant}" in ${module}/${trial}.`)
  const figures = await found(conditions)
  process.send!({ figures })
} catch (error) {
  process.send!({ reason: error instanceof Error ? error.message : String(error) })
}
// A contestant's leftover timers or sockets are not this process's business any more.
process.disconnect()
process.exitCode = 0
setImmediate(() => process.exit())
