import type { Command } from 'commander'
import { isSignalboxError } from '../../core/errors.ts'
import { text } from '../../core/options.ts'
import { type ConfigSources, type ResolvedConfig, resolveConfig } from '../config/config.ts'
import { addSettingFlags, configSources } from '../config/flags.ts'
import { problemLines } from '../config/problems.ts'
import { about, type Finding, levels } from '../doctor/judging.ts'
import type { Printer } from '../print.ts'
import type { CommandContext } from '../verbs.ts'
import { CliCommand, type Flags, remoteOptions, serverOf } from './cli-command.ts'

type DoctorFlags = Flags<never, 'strict'>

/** `signalbox doctor`: reports weak settings and problems, and changes nothing. */
export function doctorCommand({ printer, endWith }: CommandContext): Command {
  const command = new CliCommand('doctor')
    .option('--url <url>', 'the server to check; SIGNALBOX_TOKEN holds its token')
    .option('--namespace <name>', 'the namespace to check (default: default, or the token’s)')
    .option('--strict', 'exit with 1 for warnings too')
    .note('Exit codes: 0 no problem, 1 a problem (with --strict: or a warning).')
    .examples(
      'doctor',
      'doctor --database postgres://app@db/shop --redis redis://cache:6379 --strict',
      'doctor --url https://jobs.example.com --json',
    )
    .action(async (flags: DoctorFlags) => {
      const findings = await examine(command, flags)
      print(printer, findings, flags.json === true)
      const worst = flags.strict ? ['warning', 'problem'] : ['problem']
      if (findings.some(({ level }) => worst.includes(level))) endWith(1)
    })
  return addSettingFlags(command)
}

async function examine(command: Command, flags: DoctorFlags): Promise<readonly Finding[]> {
  const namespace = flags.namespace === undefined ? undefined : text('--namespace', flags.namespace)
  const url = serverOf(command, flags)
  const node = about('node', 'this machine').ok(`It runs Node ${process.versions.node}.`)
  if (url !== undefined) {
    const { examineServer } = await import('../doctor/server.ts')
    return [node, ...(await examineServer(url, { ...remoteOptions(), namespace }))]
  }
  return [node, ...(await examineHere(configSources(command), namespace ?? 'default'))]
}

async function examineHere(sources: ConfigSources, namespace: string): Promise<readonly Finding[]> {
  let config: ResolvedConfig
  try {
    config = resolveConfig(sources)
  } catch (error) {
    if (!isSignalboxError(error, 'invalid_argument')) throw error
    return problemLines(error).map((line) =>
      about('configuration', 'settings').problem(
        line,
        '`signalbox config print` shows where values come from.',
      ),
    )
  }
  const { judgeConfiguration } = await import('../doctor/judging.ts')
  const { examineStore } = await import('../doctor/store.ts')
  const { findings, hasTokens } = await examineStore(config, namespace)
  return [...judgeConfiguration(config, hasTokens), ...findings]
}

function print(printer: Printer, findings: readonly Finding[], asJson: boolean): void {
  const counts = Object.fromEntries(
    levels.map((level) => [level, findings.filter((finding) => finding.level === level).length]),
  ) as Record<(typeof levels)[number], number>
  if (asJson) {
    printer.json({ ...counts, findings })
    return
  }
  // The worst findings come last, at the end of the terminal.
  for (const level of levels) {
    for (const { check, subject, text: found, advice } of findings.filter((one) => one.level === level))
      printer.line(`${level.padEnd(8)} ${check}: ${subject}: ${found}${advice === null ? '' : ` ${advice}`}`)
  }
  const many = (level: 'problem' | 'warning') => `${counts[level]} ${level}${counts[level] === 1 ? '' : 's'}`
  printer.line(`${many('problem')}, ${many('warning')}, ${counts.ok} well`)
}
