import type { Command } from 'commander'
import { isSignalboxError } from '../../core/errors.ts'
import { spanOf } from '../config/value-kinds.ts'
import type { Stage } from '../verbs.ts'
import { runChild } from './locked-child.ts'
import { openPlace, type PlaceFlags, Verb } from './place.ts'

/** Exit codes of `signalbox once` beyond the command's own. */
export const onceExitCodes: Readonly<Record<'running' | 'stuck' | 'lost', number>> = {
  /** Another process does it right now. The command was not run. */
  running: 75,
  /** It was started before and its outcome is unknown; --at-most-once does not run it again. */
  stuck: 76,
  /** The claim was lost while the command ran, and the command was ended. */
  lost: 125,
}

interface OnceFlags extends PlaceFlags {
  readonly keep: string
  readonly lease: string
  readonly atMostOnce?: boolean
}

/** `signalbox once KEY -- command…`: runs the command unless that was done before, anywhere. */
export function onceCommand({ printer, endWith }: Stage): Command {
  const command = new Verb('once')
    .argument('<key>', 'the key of the work')
    .argument('<command...>', 'the command and its arguments, after --')
    .option('--keep <span>', 'how long the key stays done', '24h')
    .option('--lease <span>', 'the lease of the claim; it is renewed while the command runs', '30s')
    .option('--at-most-once', 'do not run it again after a crash')
    .note(
      'Exit code 0 of the command marks the key as done; any other frees it. If the key is done already, the command does not run and the exit code is 0.',
      `Exit codes: the command's own; ${onceExitCodes.running} another process runs it now; ${onceExitCodes.stuck} it is stuck; ${onceExitCodes.lost} the claim was lost.`,
    )
    .examples(
      'once report-2026-11-15 -- ./report.sh',
      'once import:42 --keep 7d --url http://127.0.0.1:7420 -- ./import 42',
    )
    .action(async (key: string, [program, ...args]: readonly string[], flags: OnceFlags) => {
      await using box = await openPlace(command, flags, 'make')
      const mode = flags.atMostOnce ? 'at-most-once' : 'at-least-once'
      try {
        const answer = await box.once.run(
          key,
          async ({ signal }) => {
            const { exitCode, isLost, problem } = await runChild(program!, args, { lost: signal })
            if (problem !== undefined) printer.problem(problem)
            if (isLost || exitCode !== 0) throw new CommandEnded(isLost ? onceExitCodes.lost : exitCode)
            return null
          },
          { keepMs: spanOf('--keep', flags.keep), leaseMs: spanOf('--lease', flags.lease), mode },
        )
        if (flags.json) printer.json({ key, ran: answer.ran, status: answer.ran ? 'done' : answer.status })
        if (answer.ran) return
        if (!flags.json) printer.problem(describeRefusal(key, answer.status))
        if (answer.status !== 'done') endWith(onceExitCodes[answer.status])
      } catch (error) {
        if (error instanceof CommandEnded) return endWith(error.exitCode)
        if (!isSignalboxError(error, 'lease_lost')) throw error
        printer.problem(error.message, error.code)
        endWith(onceExitCodes.lost)
      }
    })
  return command.boxFlags()
}

/** The command failed: the key is free again. */
class CommandEnded extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super(`The command ended with ${exitCode}.`)
    this.exitCode = exitCode
  }
}

function describeRefusal(key: string, status: 'running' | 'done' | 'stuck'): string {
  if (status === 'done') return `${key} was done before; the command was not run`
  if (status === 'running') return `another process is running ${key}; the command was not run`
  return `${key} was started before and its outcome is unknown. Check whether it was done, then forget the key (POST /v1/once/forget)`
}
