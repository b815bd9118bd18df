import { Command } from 'commander'
import { text } from '../../core/options.ts'
import { resolveSecretKeys } from '../config/config.ts'
import { addSettingFlags, resolveDatabase, sourcesOf } from '../config/flags.ts'
import type { Printer } from '../print.ts'
import { requireDatabase, requireFile } from './place.ts'

interface ResealFlags {
  readonly namespace?: string
  readonly json?: boolean
}

/** More namespaces than a server sends for. */
const maxNamespaces = 10_000

/** `signalbox monitor reseal`: seals the secrets of all channels with the first key. It works on the database itself. */
export function resealCommand(printer: Printer, endWith: (exitCode: number) => void): Command {
  const command = new Command('reseal')
    .description(
      'seal the secrets of all channels in the database with the first key, also those in plain text',
    )
    .option('--namespace <name>', 'of this namespace alone (default: of all)')
    .option('--json', 'answer with one line of JSON')
    .helpOption('-h, --help', 'print this help')
    .addHelpText(
      'after',
      '\nSIGNALBOX_SECRET_KEY holds the keys, separated by commas; or --secret-key-file names a file with one key a line. The first\nkey seals, every key opens. Give the first key to all servers of the database before you run this.\n' +
        '\nExit codes: 0 all are sealed with the first key, 1 some could not be opened.\n' +
        '\nExamples:\n  signalbox monitor reseal\n  signalbox monitor reseal --database postgres://app@db/shop --secret-key-file /run/secrets/signalbox-keys',
    )
    .action(async ({ namespace, json }: ResealFlags) => {
      const answer = await reseal(command, namespace)
      if (json) printer.json(answer)
      else {
        for (const { message } of answer.unreadable) printer.problem(message)
        printer.line(
          `${answer.resealed} sealed with the first key, ${answer.current} already sealed with it, ${answer.unreadable.length} could not be opened`,
        )
      }
      if (answer.unreadable.length > 0) endWith(1)
    })
  return addSettingFlags(command, ['database', 'secretKeyFile'])
}

async function reseal(command: Command, namespace: string | undefined) {
  requireDatabase(command, 'monitor reseal', 'A server has no route for it.')
  const keys = resolveSecretKeys(sourcesOf(command))
  const database = resolveDatabase(command)
  requireFile(database)
  const { open } = await import('../../index.ts')
  const openOne = (name: string) =>
    open(database, {
      namespace: name,
      ...(keys.length === 0 ? {} : { secretKey: keys }),
      contention: false,
    })
  await using first = await openOne(namespace === undefined ? 'default' : text('--namespace', namespace))
  const namespaces =
    namespace === undefined ? await first.backend.subscribedNamespaces(maxNamespaces) : [namespace]
  const total = { resealed: 0, current: 0 }
  const unreadable = []
  for (const name of namespaces) {
    await using box = await openOne(name)
    const answer = await box.monitor.reseal()
    total.resealed += answer.resealed
    total.current += answer.current
    unreadable.push(...answer.unreadable.map((one) => ({ namespace: name, ...one })))
  }
  // Without subscriptions there is nothing to seal, but a missing key is still refused.
  if (namespaces.length === 0) await first.monitor.reseal()
  return { ...total, unreadable }
}
