#!/usr/bin/perl

# Runs files of nginx-tests, unchanged, with Weir in place of nginx, and compares what fails with expected.tsv.
#
#     run.pl [--suite FOLDER] [--weir PROGRAM] [--nginx PROGRAM] [--markdown] [NAME ...]
#
# With --nginx, each file is run with that nginx as well: an assert that fails with both says nothing about Weir and is
# not counted. Exit code 1: an assert fails that is not expected to, or one passes that is.

use warnings;
use strict;

use File::Basename qw/ basename dirname /;
use File::Spec;
use Getopt::Long qw/ GetOptions /;

my $here = File::Spec->rel2abs(dirname(__FILE__));
my $repository = "$here/../..";
my $commit = '76bb761cdcaeb6cb024d605c2ef91bf8d8a602d7';

my ($suite, $weir) = ("$repository/target/suites/nginx-tests", "$repository/target/debug/weir");
my ($nginx, $markdown);
GetOptions('suite=s' => \$suite, 'weir=s' => \$weir, 'nginx=s' => \$nginx, 'markdown' => \$markdown) or exit 2;

unless (-d $suite) {
	system('git', 'clone', '--quiet', 'https://github.com/nginx/nginx-tests', $suite) == 0 or die "git: $?\n";
	system('git', '-C', $suite, 'checkout', '--quiet', $commit) == 0 or die "git: $?\n";
}

my @names = @ARGV ? @ARGV : map { basename($_, '.toml') } grep { !/\.\d\.toml\z/ } sort glob("$here/configs/*.toml");
my %expected = expected();
my ($passed, $all, $is_as_expected) = (0, 0, 1);
my @failed;

print "| file | asserts passed | of |\n|---|---:|---:|\n" if $markdown;
for my $name (@names) {
	my $results = outcome($name, weir => File::Spec->rel2abs($weir));
	my $others = $nginx ? outcome($name, nginx => $nginx) : {};
	my ($good, $judged) = (0, 0);
	for my $number (sort { $a <=> $b } keys %$results) {
		my $result = $results->{$number} or next;
		my ($is_ok, $what) = @$result;
		my $reason = $expected{$name}{$number};
		next if !$is_ok && $others->{$number} && !$others->{$number}[0];
		$judged++;
		$good++ if $is_ok;
		push @failed, [$name, $number, $what, $reason] unless $is_ok;
		next if $is_ok == !$reason || $reason && $reason =~ /^sometimes\t/;
		$is_as_expected = 0;
		print STDERR $is_ok ? "passes" : "fails", ", and is not expected to: $name $number - $what\n";
	}
	printf $markdown ? "| `%s.t` | %d | %d |\n" : "%-26s %3d of %3d\n", $name, $good, $judged;
	$passed += $good;
	$all += $judged;
}
printf $markdown ? "| **%s** | **%d** | **%d** |\n" : "%-26s %3d of %3d\n", 'together', $passed, $all;

if ($markdown) {
	print "\n| file | assert | | why |\n|---|---|---|---|\n";
	printf "| `%s` | %d %s | %s | %s |\n", @$_[0, 1, 2], split(/\t/, $_->[3] // "\t", 2) for @failed;
}

exit($is_as_expected ? 0 : 1);

# What is expected to fail: file, number of the assert, class, reason, with tabs between them.
sub expected {
	my %found;
	open my $file, '<', "$here/expected.tsv" or die "expected.tsv: $!\n";
	while (my $line = <$file>) {
		chomp $line;
		next if $line eq '' || $line =~ /^#/;
		my ($name, $number, $reason) = split /\t/, $line, 3;
		$found{$name}{$number} = $reason;
	}
	return %found;
}

# The asserts of a file by their numbers: whether each holds, and its name; one that did not run does not. Nothing for what
# was skipped, and what the suite itself marks as not done yet; its two asserts about the log of nginx are left out.
sub outcome {
	my ($name, $target, $program) = @_;
	my @perl = ($^X, '-Ilib');
	local %ENV = (%ENV, TEST_NGINX_VERBOSE => 0);
	if ($target eq 'weir') {
		push @perl, "-I$here/lib", '-MWeirConfig';
		@ENV{qw/ WEIR TEST_NGINX_BINARY /} = ($program, "$here/weir-as-nginx");
	} else {
		@ENV{qw/ NGINX TEST_NGINX_BINARY TEST_NGINX_GLOBALS /} = ($program, "$here/nginx-alone", 'user root;');
	}
	my $pid = open my $out, '-|';
	die "fork: $!\n" unless defined $pid;
	if ($pid == 0) {
		open STDERR, '>&', \*STDOUT;
		chdir $suite or die "$suite: $!\n";
		exec('timeout', '180', @perl, "$name.t") or die "$name.t: $!\n";
	}
	my ($planned, %results) = (0);
	while (my $line = <$out>) {
		print STDERR "$name.t: $line" if $line =~ /^(?:Can't|error)/;
		$planned = $1 - 2 if $line =~ /^1\.\.(\d+)/;
		next unless $line =~ /^(not )?ok (\d+)(?: - (.*?))?\s*(# (?:skip|[T]ODO).*)?$/i;
		next if ($3 // '') =~ /^no (?:alerts|sanitizer errors)$/;
		$results{$2} = $4 ? undef : [!$1, $3 // ''];
	}
	close $out;
	if ($planned <= 0) {
		print STDERR "$name.t: skipped, or did not start\n";
		$is_as_expected = 0 if $target eq 'weir';
	}
	exists $results{$_} or $results{$_} = [0, '(did not run)'] for 1 .. $planned;
	return \%results;
}
