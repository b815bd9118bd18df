import type { Campaign } from './campaign.ts'
import { type Copy, createCopy, type Mutation } from './mutate.ts'

export interface MutationPlan {
  readonly module: string
  /** The tests that should notice. */
  readonly paths: readonly string[]
  readonly mutations: readonly Mutation[]
  readonly copy?: () => Copy
}

/**
 * A campaign over a list of mutations: passes when the tests pass on the code as it is and every mutation fails at
 * least one of them. The list is run once, whole, whatever the scale: its length is its scale.
 */
export function mutationCampaign({ module, paths, mutations, copy = createCopy }: MutationPlan): Campaign {
  return {
    name: `${module}-mutations`,
    module,
    description: `breaks ${module} in ${mutations.length} ways and lists which tests notice`,
    async run({ progress }) {
      using project = copy()
      progress('as it is')
      const broken = await project.failing(paths)
      if (broken.length > 0) throw new Error(`The tests fail before any mutation: ${broken.join('; ')}`)

      const notes: string[] = []
      const troubles: string[] = []
      for (const [at, mutation] of mutations.entries()) {
        progress(`${at + 1} of ${mutations.length}: ${mutation.breaks}`)
        try {
          using _applied = project.apply(mutation)
          const caughtBy = await project.failing(paths)
          if (caughtBy.length === 0) troubles.push(`nothing notices when this breaks: ${mutation.breaks}`)
          else notes.push(note(mutation, caughtBy))
        } catch (error) {
          troubles.push(`${mutation.breaks}: ${(error as Error).message}`)
        }
      }
      if (troubles.length > 0)
        throw new Error(`${troubles.length} of ${mutations.length}: ${troubles.join('; ')}`)
      return { counts: { mutations: mutations.length, caught: notes.length }, notes }
    },
  }
}

function note({ file, find, replace, breaks }: Mutation, caughtBy: readonly string[]): string {
  const [first, ...others] = caughtBy
  const more = others.length > 0 ? `, and ${others.length} more` : ''
  return `- ${breaks} (${file}: \`${oneLine(find)}\` → \`${oneLine(replace)}\`): caught by "${first}"${more}`
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim() || 'nothing'
}
