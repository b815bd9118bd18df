import type { Command } from 'commander'
import { twinsOf } from '../environment-twins.ts'
import type { ConfigSources } from './config.ts'
import { sourcesOf } from './flags.ts'

/**
 * What a whole configuration is read from. A variable that is no setting may be the twin of any command's flag; where
 * there is such a one, all commands have been loaded.
 */
export function configSources(command: Command): ConfigSources {
  let program = command
  while (program.parent) program = program.parent
  return { ...sourcesOf(command), twins: twinsOf(program) }
}
