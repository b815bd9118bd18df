/** How the ends of tasks are written, and read again. */
import { encodeJson } from '../../core/json.ts'
import type { JobRecord } from '../../jobs/index.ts'
import type { TaskError } from '../node.ts'
import type { Settled } from '../registry/effect.ts'
import type { Ending } from './task-completer.ts'
import { decodeTask, encodeFault, encodeOutput } from './task-document.ts'

/** The attempt whose word from this node ended the task; null when something else did. */
export function attemptThatEnded(record: JobRecord | undefined, nodeId: string): number | null {
  if (record === undefined || record.finishedAt === null) return null
  return decodeTask(record).nodeId === nodeId ? record.attempt : null
}

/** What is written for an end. An answer that cannot be kept is a failure that says so. */
export function endingOf(
  effect: Settled,
): Pick<Settled, 'end' | 'output' | 'error'> & { readonly ending: Ending } {
  const { end, output, nodeId } = effect
  if (end !== 'completed') {
    const error: TaskError = effect.error ?? { code: 'failed', message: 'The task failed.' }
    const state = end === 'failed' ? 'dead' : 'cancelled'
    return { end, output: null, error, ending: { state, result: null, error: encodeFault(error, nodeId) } }
  }
  try {
    const result = encodeOutput(nodeId, encodeJson('output', output))
    return { end, output, error: null, ending: { state: 'completed', result, error: null } }
  } catch (thrown) {
    const { code = 'failed', message = 'The output cannot be kept.' } = thrown as Partial<TaskError>
    const error = { code, message }
    const ending: Ending = { state: 'dead', result: null, error: encodeFault(error, nodeId) }
    return { end: 'failed', output: null, error, ending }
  }
}
