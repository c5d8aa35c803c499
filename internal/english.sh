#!/usr/bin/env bash
# Finds the worst English in comments of Go and Lua, in scripts, and in Markdown: a bare "who" as a
# noun ("who waits is told", "for who comes late"), and phrases that are no English.
#
#	internal/english.sh          all of CHECKED
#	internal/english.sh DIR...   these files and folders
set -euo pipefail
cd "$(dirname "$0")/.."

CHECKED=(README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md AGENTS.md .github Makefile *.go adapt bench chaos cmd docs driver etcdlock fence
	filelock internal memlock metrics pglock redislock sim spec zklock)
[ $# -gt 0 ] || set -- "${CHECKED[@]}"

find "$@" -type f \( -name '*.go' -o -name '*.lua' -o -name '*.md' -o -name '*.sh' -o -name Makefile \) \
	-not -path '*/testdata/*' -not -path '*/.readme-*' -print0 | sort -z | xargs -0 perl -e '
my @bad = (
	# After a preposition it is no question: "for who comes late", "behind who waits".
	qr/\b(?:for|to|of|with|from|than|behind|beside|but|only|on|at|against|between|lets|let|keeps|wakes|refuses|serves|starves) who (?!and\b|else\b)[a-z]+/i,
	# It begins a sentence that is none: "Who waits is told."
	qr/(?:^|[.;:!?)*] +|\*\*|^- |^\| )Who (?!am |of )[a-z][^.?!]*[.!:;,*]/,
	# After a conjunction: "as who waits is told", "so who asks for more".
	qr/\b(?:so|then|if|as|unless|until|while|where|when|because|though|nor|also|even) who [a-z]+/i,
	# The clause is a subject: ", who waits is told", "who comes later gets it".
	qr/(?<!tells )(?<!says )(?<!show )(?<!shows )(?<!know )\bwho (?:waits|asks|wants|comes|looks|releases|acquires|gives up|listens|reads|writes|leaves) (?:[a-z]+ ){0,4}?(?:is|are|was|gets|has to|must|may|waits|goes|finds|hears|learns|knows|pays)\b(?! (?:waiting|it|them))/,
	# After a colon it explains who acts: ": who watches it sees".
	qr/[:;] who (?:is|joins|made|takes|watches|comes|knows|connects|only|loses|waits|waited|cannot|reads)\b/,
	qr/\bis no matter\b/i, qr/\bno matter (?:to|for)\b/i,
	qr/\b(?:has|have|had) not to\b/i, qr/\bneeds? not to\b/i,
	qr/\bWhat is no\b/, qr/\bhow it is called\b/i, qr/\bin the midst of\b/i,
);
my $found = 0;
for my $file (@ARGV) {
	open my $in, "<", $file or die "$file: $!";
	my ($text, @at, $block, $fenced) = ("");
	my $flush = sub {
		for my $bad (@bad) {
			while ($text =~ /$bad/g) {
				my ($line, $what) = (0, substr($text, $-[0], 100));
				for (@at) { $line = $_->[1] if $_->[0] <= $-[0] }
				print "$file:$line: $what\n";
				$found++;
			}
		}
		($text, @at) = ("");
	};
	while (my $l = <$in>) {
		chomp $l;
		my $c = "";
		if ($file =~ /\.go$/) {
			$block = 1 if $l =~ m{^/\*};
			$c = $block ? $l : $l =~ m{(?:^|\s)//\s?(.*)} ? $1 : "";
			$block = 0 if $l =~ m{\*/};
		} elsif ($file =~ /\.lua$/) {
			$c = $l =~ /(?:^|\s)--\s?(.*)/ ? $1 : "";
		} elsif ($file =~ /\.md$/) {
			$fenced = !$fenced if $l =~ /^\s*```/;
			$c = $fenced || $l =~ /^    / ? "" : $l;
			$c =~ s/"[^"]*"|`[^`]*`/X/g; # what is quoted is not ours to mend
		} else {
			$c = $l =~ /^\s*#\s?(.*)/ ? $1 : "";
			$c =~ s/"[^"]*"//g;
		}
		$flush->() if $c !~ /\S/ || $c =~ /^\s*(?:[-*|#]|\d+\.) /;
		push @at, [length $text, $.];
		$text .= ($text eq "" ? "" : " ") . $c if $c =~ /\S/;
	}
	$flush->();
}
if ($found) { print "$found places to rewrite: \"a waiter\", \"the caller\", \"whoever\"; one idea a sentence\n"; exit 1 }
'
