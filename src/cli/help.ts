import type { Option } from 'commander'

/** A description may end in "(default: …)" itself, where that is words and no value. */
const ownDefault = / \(default: ([^()]*)\)$/

/** A flag in the help: what it does, what it may be, what it is unless it is given, and its twin in the environment. */
export function describeOption(option: Option): string {
  const { description, argChoices, defaultValueDescription, defaultValue, envVar } = option
  const takesValue = option.required || option.optional
  const value = takesValue && defaultValue !== undefined ? String(defaultValue) : undefined
  const fallback = defaultValueDescription || value || ownDefault.exec(description)?.[1]
  const about = [
    ...(argChoices ? [`one of ${argChoices.join(', ')}`] : []),
    ...(fallback === undefined ? [] : [`default: ${fallback}`]),
    ...(envVar === undefined ? [] : [`env: ${envVar}`]),
  ]
  const does = description.replace(ownDefault, '')
  return about.length === 0 ? does : `${does} (${about.join('; ')})`
}
